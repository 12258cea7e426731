"""Compactions: the log files of file groups become part of their base files.

Hudi: org.apache.hudi.table.action.compact.
"""
