"""The stages of a compile: the call is traced, the values to be built are planned, the graph is compiled, and the entry is specified and made.

    CompileRequest -> Traced -> Planned -> Compiled -> EntrySpec -> Entry
       driver/       traced.py  planned.py compiled.py       driver/

compile.py calls the stages in order; broken.py plans for traces that stopped before the end of their frame. The result of each stage is a value that
never changes.
"""
