"""The way of a compile, stage by stage: a call is traced, what is to be built is planned, the graph compiled, the entry described and made.

    CompileRequest -> Traced -> Planned -> Compiled -> EntrySpec -> Entry
       driver/       traced.py  planned.py compiled.py      entry_spec.py

compile.py goes this way; broken.py plans for traces that stopped before their frame's end. Each stage is a value that nothing is written into
after it is made.
"""
