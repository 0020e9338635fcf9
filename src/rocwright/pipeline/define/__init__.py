"""What a run consists of: profile and choice in, cells and jobs out; pure."""
