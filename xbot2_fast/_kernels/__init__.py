"""Compiled kernels: arithmetic over arrays and calls into MuJoCo's C library, nothing else.

Arguments are trusted here; the public modules that call a kernel check them.
"""
