"""A running engine's own figures held against the rules, without touching the engine.

    log or metrics -> what was printed (starts, figures, facts) -> setup -> pool -> checks

* `text`, `fetch`: bounded reading of a file, standard input or a metrics URL
* `printed`, `seen`: what one start of an engine said: figures with their rounding, facts with lines
* `lines`, `config_line`: vLLM's log lines of all versions; `metrics`: its Prometheus labels
* `sglang_lines`, `trtllm_lines`, `llamacpp_lines` (and Ollama's): the lines of other engines
* `readers`: one reader per engine behind one interface; `starts`: which start of a log counts
* `setup`: facts of the command line and of the log, one winner each, and what is left open
* `pool`: one setup's pool of blocks; `possible`: the numbers of blocks that figures leave open;
  `compare`, `outcome`: printed figures and refusals against them; `budget`: the sums a log states
* `judge`: open questions answered, and which single other fact would make figures agree
* `logical`: engines whose layouts are not known; `vllm`, `verify`: the whole of it
"""
