"""The contract of a wheel and of a set of wheels: gather facts, apply rules, report every finding."""
