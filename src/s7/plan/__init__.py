"""Planning of training on many devices: a cost model (`cost`) and its calibration on this machine (`measuring`)."""
