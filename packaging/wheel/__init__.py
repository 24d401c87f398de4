# SPDX-License-Identifier: Apache-2.0
"""Lockstep: distributed data-parallel training for C++. The programs are in bin/, the C++ library in lib/ and include/.

lockstep run starts Python programs as torchrun does; python -m lockstep does the same with this Python.
"""
__version__ = "@VERSION@"
