"""Generated from rocwright's tables gpus.toml and families.toml by docs/generate.py; not to be edited."""

# fmt: off

# chip, target, whether it is part of a processor, PCI device ids
CHIPS = (
    ("Carrizo", "gfx801", 1, "9870 9874 9875 9876 9877"),
    ("Topaz", "gfx802", 0, "6900 6901 6902 6903 6907"),
    ("Tonga", "gfx802", 0, "6920 6921 6928 6929 692b 692f 6930 6938 6939"),
    ("Fiji", "gfx803", 0, "7300 730f"),
    ("Polaris 10", "gfx803", 0, "67c0 67c1 67c2 67c4 67c7 67c8 67c9 67ca 67cc 67cf 67d0 67df 6fdf"),
    ("Polaris 11", "gfx803", 0, "67e0 67e1 67e3 67e7 67e8 67e9 67eb 67ef 67ff"),
    ("Polaris 12", "gfx803", 0, "6980 6981 6985 6986 6987 6995 6997 699f"),
    ("Polaris 22", "gfx803", 0, "694c 694e 694f"),
    ("Stoney", "gfx810", 1, "98e4"),
    ("Vega 10", "gfx900", 0, "6860 6861 6862 6863 6864 6867 6868 6869 686a 686b 686c 686d 686e 686f 687f"),
    ("Raven", "gfx902", 1, "15d8 15dd"),
    ("Vega 12", "gfx904", 0, "69a0 69a1 69a2 69a3 69af"),
    ("Vega 20", "gfx906", 0, "66a0 66a1 66a2 66a3 66a4 66a7 66af"),
    ("Arcturus", "gfx908", 0, "7388 738c 738e 7390"),
    ("Aldebaran", "gfx90a", 0, "7408 740c 740f 7410"),
    ("Renoir", "gfx90c", 1, "15e7 1636 1638 164c"),
    ("Aqua Vanjaram", "gfx942", 0, "74a0 74a1 74a2 74a5 74a8 74a9 74b5 74b6 74bd"),
    ("MI350", "gfx950", 0, "75a0 75a3 75b0 75b3"),
    ("Navi 10", "gfx1010", 0, "7310 7312 7318 7319 731a 731b 731e 731f"),
    ("Navi 12", "gfx1011", 0, "7360 7362"),
    ("Navi 14", "gfx1012", 0, "7340 7341 7347 734f"),
    ("Cyan Skillfish", "gfx1013", 1, "13db 13f9 13fa 13fb 13fc 13fe 143f"),
    ("Navi 21", "gfx1030", 0, "73a0 73a1 73a2 73a3 73a5 73a8 73a9 73ab 73ac 73ad 73ae 73af 73bf"),
    ("Navi 22", "gfx1031", 0, "73c0 73c1 73c3 73da 73db 73dc 73dd 73de 73df"),
    ("Navi 23", "gfx1032", 0, "73e0 73e1 73e2 73e3 73e8 73e9 73ea 73eb 73ec 73ed 73ef 73ff"),
    ("Van Gogh", "gfx1033", 1, "1435 163f"),
    ("Navi 24", "gfx1034", 0, "7420 7421 7422 7423 7424 743f"),
    ("Rembrandt", "gfx1035", 1, "164d 1681"),
    ("Raphael", "gfx1036", 1, "13c0 164e"),
    ("Mendocino", "gfx1036", 1, "1506"),
    ("Navi 31", "gfx1100", 0, "7448 7449 744a 744b 744c 745e"),
    ("Navi 32", "gfx1101", 0, "7460 7461 7470 747e"),
    ("Navi 33", "gfx1102", 0, "7480 7483 7489 7499"),
    ("Phoenix", "gfx1103", 1, "15bf 15c8"),
    ("Hawk Point", "gfx1103", 1, "1900 1901"),
    ("Strix Point", "gfx1150", 1, "150e"),
    ("Strix Halo", "gfx1151", 1, "1586"),
    ("Krackan Point", "gfx1152", 1, "1114"),
    ("Navi 44", "gfx1200", 0, "7590"),
    ("Navi 48", "gfx1201", 0, "7550 7551"),
)

# device:revisions|name
NAMES = '''\
9874:81 85 c5 c6|AMD Radeon R6 Graphics
9874:84 c4 c8 c9 cc cd e1 e2 e3 e4|AMD Radeon R7 Graphics
9874:87 c7 ca cb ce e5 e6|AMD Radeon R5 Graphics
9874:88|AMD Radeon R7E Graphics
9874:89|AMD Radeon R6E Graphics
6900:00|AMD Radeon R7 M260
6900:81|AMD Radeon R7 M360
6900:83|AMD Radeon R7 M340
6900:c1|AMD Radeon R5 M465 Series
6900:c3|AMD Radeon R5 M445 Series
6900:d1 d3|AMD Radeon 530 Series
6901:00|AMD Radeon R5 M255
6902:00|AMD Radeon Series
6907:00|AMD Radeon R5 M255
6907:87|AMD Radeon R5 M315
6920:00|AMD Radeon R9 M395X
6920:01|AMD Radeon R9 M390X
6921:00|AMD Radeon R9 M390X
6929:00|AMD FirePro S7150
6929:01|AMD FirePro S7100X
692b:00|AMD FirePro W7100
6938:00 f0|AMD Radeon R9 200 Series
6938:f1|AMD Radeon R9 380 Series
6939:00 f0|AMD Radeon R9 200 Series
6939:f1|AMD Radeon R9 380 Series
7300:c1|AMD FirePro S9300 x2
7300:c8 ca cb|AMD Radeon R9 Fury Series
7300:c9|AMD Radeon Pro Duo
67c0:00|AMD Radeon Pro WX 7100 Graphics
67c0:80|AMD Radeon E9550
67c2:01|AMD Radeon Pro V7350x2
67c2:02|AMD Radeon Pro V7300X
67c4:00|AMD Radeon Pro WX 7100 Graphics
67c4:80|AMD Radeon E9560 / E9565 Graphics
67c7:00|AMD Radeon Pro WX 5100 Graphics
67c7:80|AMD Radeon E9390 Graphics
67d0:01|AMD Radeon Pro V7350x2
67d0:02|AMD Radeon Pro V7300X
67df:c0 eb|AMD Radeon Pro 580X
67df:c1 c3 e7|AMD Radeon RX 580 Series
67df:c2 c6 ef|AMD Radeon RX 570 Series
67df:c4 c7|AMD Radeon RX 480 Graphics
67df:c5 cf d7|AMD Radeon RX 470 Graphics
67df:e0 ff|AMD Radeon RX 470 Series
67df:e1|AMD Radeon RX 590 Series
67df:e3|AMD Radeon RX Series
67df:f7|AMD Radeon RX P30PH
6fdf:e7|AMD Radeon RX 590 GME
6fdf:ef|AMD Radeon RX 580 2048SP
67e0:00|AMD Radeon Pro WX Series
67e3:00|AMD Radeon Pro WX 4100
67e8:00 01|AMD Radeon Pro WX Series
67e8:80|AMD Radeon E9260 Graphics
67eb:00|AMD Radeon Pro V5300X
67ef:c0 c7|AMD Radeon RX Graphics
67ef:c1 c5 cf ff|AMD Radeon RX 460 Graphics
67ef:c2|AMD Radeon Pro Series
67ef:c3 e1 e3|AMD Radeon RX Series
67ef:e0 e5 e7|AMD Radeon RX 560 Series
67ef:e2|AMD Radeon RX 560X
67ef:ef|AMD Radeon 550 Series
67ff:c0|AMD Radeon Pro 465
67ff:c1 cf ef|AMD Radeon RX 560 Series
67ff:ff|AMD Radeon RX 550 Series
6980:00|AMD Radeon Pro WX 3100
6981:00 01 10|AMD Radeon Pro WX 3200 Series
6985:00|AMD Radeon Pro WX 3100
6986:00|AMD Radeon Pro WX 2100
6987:80|AMD Embedded Radeon E9171
6987:c0|AMD Radeon 550X Series
6987:c1|AMD Radeon RX 640
6987:c3|AMD Radeon 540X Series
6987:c7|AMD Radeon 540
6995:00|AMD Radeon Pro WX 2100
6997:00|AMD Radeon Pro WX 2100
699f:81|AMD Embedded Radeon E9170 Series
699f:c0 c3|AMD Radeon 500 Series
699f:c1|AMD Radeon 540 Series
699f:c7|AMD Radeon RX 550 / 550 Series
699f:c9|AMD Radeon 540
694c:c0|AMD Radeon RX Vega M GH Graphics
694e:c0|AMD Radeon RX Vega M GL Graphics
98e4:80|AMD Radeon R5E Graphics
98e4:81|AMD Radeon R4E Graphics
98e4:83 84|AMD Radeon R2E Graphics
98e4:86|AMD Radeon R1E Graphics
98e4:c0 c2 c8 c9 e9 ea|AMD Radeon R4 Graphics
98e4:c1 c4 c6 ca d9 da|AMD Radeon R5 Graphics
98e4:d0 d1 d2 d4|AMD Radeon R2 Graphics
98e4:db e1 e2 eb|AMD Radeon R3 Graphics
6860:00 01 02|AMD Radeon Instinct MI25
6860:03|AMD Radeon Pro V340
6860:04|AMD Radeon Instinct MI25x2
6860:07|AMD Radeon Pro V320
6861:00|AMD Radeon Pro WX 9100
6862:00|AMD Radeon Pro SSG
6863:00|AMD Radeon Vega Frontier Edition
6864:03 05|AMD Radeon Pro V340
6864:04|AMD Radeon Instinct MI25x2
6868:00|AMD Radeon Pro WX 8200
686c:00 01 02 06|AMD Radeon Instinct MI25 MxGPU
686c:03|AMD Radeon Pro V340 MxGPU
686c:04|AMD Radeon Instinct MI25x2 MxGPU
686c:05|AMD Radeon Pro V340L MxGPU
687f:01 c0 c1 c3 c7|AMD Radeon RX Vega
15d8:00|AMD Radeon RX Vega 8 Graphics WS
15d8:91 92 a4 b4 c4 c5 cc ce d4 db dc dd de df e3|AMD Radeon Vega 3 Graphics
15d8:93|AMD Radeon Vega 1 Graphics
15d8:a1 b1 c1 d1|AMD Radeon Vega 10 Graphics
15d8:a2 b2 c2 c9 cb d2 d9|AMD Radeon Vega 8 Graphics
15d8:a3 b3 c3 d3|AMD Radeon Vega 6 Graphics
15d8:c8 ca d8 da|AMD Radeon Vega 11 Graphics
15d8:cf|AMD Ryzen Embedded R1305G with Radeon Vega Gfx
15d8:e4|AMD Ryzen Embedded R1102G with Radeon Vega Gfx
15dd:81|AMD Ryzen Embedded V1807B with Radeon Vega Gfx
15dd:82|AMD Ryzen Embedded V1756B with Radeon Vega Gfx
15dd:83|AMD Ryzen Embedded V1605B with Radeon Vega Gfx
15dd:84 cc d9|AMD Radeon Vega 6 Graphics
15dd:85|AMD Ryzen Embedded V1202B with Radeon Vega Gfx
15dd:86 c1 c6 c9 d3 d6|AMD Radeon Vega 11 Graphics
15dd:88 c2 c4 c8 ca d1 d5 d7|AMD Radeon Vega 8 Graphics
15dd:c3|AMD Radeon Vega 3 / 10 Graphics
15dd:c5 cb ce cf d8 e1 e2|AMD Radeon Vega 3 Graphics
15dd:d0|AMD Radeon Vega 10 Graphics
66a1:02|AMD Instinct MI60 / MI50
66a1:06|AMD Radeon Pro VII
66af:c1|AMD Radeon VII
738c:01|AMD Instinct MI100
7408:00|AMD Instinct MI250X
740c:01|AMD Instinct MI250X / MI250
740f:02|AMD Instinct MI210
74a0:00|AMD Instinct MI300A
74a1:00|AMD Instinct MI300X
74a2:00|AMD Instinct MI308X
74a5:00|AMD Instinct MI325X
74a8:00|AMD Instinct MI308X HF
74a9:00|AMD Instinct MI300X HF
74b5:00|AMD Instinct MI300X VF
74b6:00|AMD Instinct MI308X
74bd:00|AMD Instinct MI300X HF
75a0:00|AMD Instinct MI350X
75a3:00|AMD Instinct MI355X
75b0:00|AMD Instinct MI350X VF
75b3:00|AMD Instinct MI355X VF
7312:00|AMD Radeon Pro W5700
731e:c6|AMD Radeon RX 5700XTB
731e:c7|AMD Radeon RX 5700B
731f:c0|AMD Radeon RX 5700 XT 50th Anniversary
731f:c1 c5|AMD Radeon RX 5700 XT
731f:c2|AMD Radeon RX 5600M
731f:c3|AMD Radeon RX 5700M
731f:c4|AMD Radeon RX 5700
731f:ca|AMD Radeon RX 5600 XT
731f:cb|AMD Radeon RX 5600 OEM
7360:41|AMD Radeon Pro 5600M
7360:c3|AMD Radeon Pro V520
7362:c1|AMD Radeon Pro V540
7362:c3|AMD Radeon Pro V520
7340:c1|AMD Radeon RX 5500M
7340:c3|AMD Radeon RX 5300M
7340:c5|AMD Radeon RX 5500 XT
7340:c7|AMD Radeon RX 5500
7340:c9|AMD Radeon RX 5500XTB
7340:cf|AMD Radeon RX 5300
7341:00|AMD Radeon Pro W5500
7347:00|AMD Radeon Pro W5500M
73a1:00|AMD Radeon Pro V620
73a3:00|AMD Radeon Pro W6800
73a5:c0|AMD Radeon RX 6950 XT
73ae:00|AMD Radeon Pro V620 MxGPU
73af:c0|AMD Radeon RX 6900 XT
73bf:c0|AMD Radeon RX 6900 XT
73bf:c1|AMD Radeon RX 6800 XT
73bf:c3|AMD Radeon RX 6800
73df:c0|AMD Radeon RX 6750 XT
73df:c1 c5|AMD Radeon RX 6700 XT
73df:c2 c3|AMD Radeon RX 6800M
73df:cf|AMD Radeon RX 6700M
73df:d5 e5|AMD Radeon RX 6750 GRE 12GB
73df:d7|AMD TDC-235
73df:df ff|AMD Radeon RX 6700
73e0:00|AMD Radeon RX 6600M
73e1:00|AMD Radeon Pro W6600M
73e3:00|AMD Radeon Pro W6600
73ef:c0|AMD Radeon RX 6800S
73ef:c1|AMD Radeon RX 6650 XT
73ef:c2|AMD Radeon RX 6700S
73ef:c3|AMD Radeon RX 6650M
73ef:c4|AMD Radeon RX 6650M XT
73ff:c1|AMD Radeon RX 6600 XT
73ff:c3|AMD Radeon RX 6600M
73ff:c7|AMD Radeon RX 6600
73ff:cb|AMD Radeon RX 6600S
73ff:cf|AMD Radeon RX 6600 LE
73ff:df|AMD Radeon RX 6750 GRE 10GB
1435:ae|AMD Custom GPU 0932
163f:ae e1|AMD Custom GPU 0405
7421:00|AMD Radeon Pro W6500M
7422:00|AMD Radeon Pro W6400
7423:00|AMD Radeon Pro W6300M
7423:01|AMD Radeon Pro W6300
7424:00|AMD Radeon RX 6300
743f:c1|AMD Radeon RX 6500 XT
743f:c3|AMD Radeon RX 6500
743f:c7 d7|AMD Radeon RX 6400
743f:c8|AMD Radeon RX 6500M
743f:cc|AMD Radeon 6550S
743f:ce|AMD Radeon RX 6450M
743f:cf|AMD Radeon RX 6300M
743f:d3|AMD Radeon RX 6550M
1681:06 0a c7 c8|AMD Radeon 680M
1681:07 0b c9|AMD Radeon 660M
164e:d8 d9 da db dc|AMD Radeon 610M
1506:c1 c2 c3 c4|AMD Radeon 610M
7448:00|AMD Radeon Pro W7900
7449:00|AMD Radeon Pro W7800 48GB
744a:00|AMD Radeon Pro W7900 Dual Slot
744b:00|AMD Radeon Pro W7900D
744c:c8|AMD Radeon RX 7900 XTX
744c:cc|AMD Radeon RX 7900 XT
744c:ce|AMD Radeon RX 7900 GRE
744c:cf|AMD Radeon RX 7900M
745e:cc|AMD Radeon Pro W7800
7460:00|AMD Radeon Pro V710
7461:00|AMD Radeon Pro V710 MxGPU
7470:00|AMD Radeon Pro W7700
747e:c8|AMD Radeon RX 7800 XT
747e:d8|AMD Radeon RX 7800M
747e:db|AMD Radeon RX 7700
747e:ff|AMD Radeon RX 7700 XT
7480:00|AMD Radeon Pro W7600
7480:c0|AMD Radeon RX 7600 XT
7480:c1|AMD Radeon RX 7700S
7480:c2|AMD Radeon RX 7650 GRE
7480:c3|AMD Radeon RX 7600S
7480:c7|AMD Radeon RX 7600M XT
7480:cf|AMD Radeon RX 7600
7483:cf|AMD Radeon RX 7600M
7489:00|AMD Radeon Pro W7500
7499:00|AMD Radeon Pro W7400
7499:c0|AMD Radeon RX 7400
7499:c1|AMD Radeon RX 7300
15bf:00 02 06 c1 c2 c4 c6 c7 c9 cf d0 d1 d2 d3 d4 d7 d9 da dd|AMD Radeon 780M Graphics
15bf:01 03 05 c3 c8 cb cd d5 d6 db dc df f0|AMD Radeon 760M Graphics
15bf:07 08 c5 ca cc ce d8 de|AMD Radeon 740M Graphics
15c8:c1 c2 c3 c4 c5 c6 c7 c8 d1 d2 d3 d4 d5 d6 d7 d8|AMD Radeon 740M Graphics
1900:01 03 05 06 b0 b1 b2 b3 b4 b5 b6 b9 ba bb c0 c2 c4 c5 c7 c9 cb cc ce d0|AMD Radeon 780M Graphics
1900:d2 d4 d5 d7 d9 db dc de f0 f1 f2|AMD Radeon 780M Graphics
1900:02 04 07 b7 b8 c1 c3 c6 c8 ca cd cf d1 d3 d6 d8 da dd df|AMD Radeon 760M Graphics
1901:c1 c2 c3 c6 c7 c8 c9 ca d1 d2 d3 d4 d5 d6 d7 d8|AMD Radeon 740M Graphics
150e:c1 c5 c6 c7 d1 d3 e1 e3 e4 f1 f3|AMD Radeon 890M Graphics
150e:c4 d2|AMD Radeon 880M Graphics
1586:c1 c3 c6 d1|AMD Radeon 8060S Graphics
1586:c2 c4 d2 d4|AMD Radeon 8050S Graphics
1586:d5|AMD Radeon 8040S Graphics
1114:c2 d2 e2 e4 e9 ed f2 f9 fc|AMD Radeon 860M Graphics
1114:c3 d3 e5 ea ee f3 fa fd|AMD Radeon 840M Graphics
7590:c0|AMD Radeon RX 9060 XT
7590:c1|AMD Radeon RX 9060 XT LP
7590:c7|AMD Radeon RX 9060
7590:cf|AMD Radeon RX 9050
7590:df|AMD Radeon RX 9050 4GB
7550:c0|AMD Radeon RX 9070 XT
7550:c2|AMD Radeon RX 9070 GRE
7550:c3|AMD Radeon RX 9070
7551:c0|AMD Radeon AI PRO R9700
7551:c8|AMD Radeon AI PRO R9600D
'''

# family: platforms that packages are published for, targets
FAMILIES = {
    "gfx94X-dcgpu": ("linux", "gfx942"),
    "gfx110X-all": ("linux windows", "gfx1100 gfx1101 gfx1102 gfx1103"),
    "gfx1151": ("linux windows", "gfx1151"),
    "gfx120X-all": ("linux windows", "gfx1200 gfx1201"),
    "gfx90a": ("linux windows", "gfx90a"),
    "gfx950-dcgpu": ("linux", "gfx950"),
    "gfx900": ("linux windows", "gfx900"),
    "gfx906": ("linux windows", "gfx906"),
    "gfx908": ("linux windows", "gfx908"),
    "gfx90c": ("linux windows", "gfx90c"),
    "gfx101X-dgpu": ("linux windows", "gfx1010 gfx1011 gfx1012"),
    "gfx103X-all": ("linux windows", "gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036"),
    "gfx1150": ("linux windows", "gfx1150"),
    "gfx1152": ("linux windows", "gfx1152"),
    "gfx1153": ("linux windows", "gfx1153"),
    "gfx125X-dcgpu": ("linux", "gfx1250"),
}
