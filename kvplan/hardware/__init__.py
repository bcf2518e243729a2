"""Devices and cloud machines: what they are called, how much memory they have, how fast it is.

tables.py     the two data files, devices.tsv and instances.tsv, and a file of the user's own
device.py     one device, and its memory as software sees it
names.py      what people and manifests call a device
slices.py     MIG slices
sets.py       `--gpu 3090:2,4090:1`: several devices, the smallest decides
nvml.py       the devices of this machine
"""
