"""Jobs that really train, small enough for a laptop: ``python -m copter.live.examples.digits``.

`digits.py` and `digits_torch.py` recognise digits, the latter in PyTorch; `regression.py` fits a line.
"""
