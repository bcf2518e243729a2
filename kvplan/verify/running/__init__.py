"""A running engine's own figures held against the rules, without touching the engine.

    log or metrics -> what was printed (starts, figures, facts) -> setup -> pool -> checks

* `text`, `fetch`: bounded reading of a file, standard input or a metrics URL
* `printed`, `seen`: what one start of an engine said: figures with their rounding, facts with lines
* `lines`, `config_line`: vLLM's log lines of all versions; `metrics`: its Prometheus labels
* `others`: the lines of SGLang, TensorRT-LLM, llama.cpp and Ollama
* `readers`: one reader per engine behind one interface; `starts`: which start of a log counts
* `setup`: facts of the command line and of the log, one winner each, and what is left open
* `pool`: one setup's pool of blocks; `compare`: printed figures against it; `budget`: the sums
  a log states itself; `causes`: which single other fact would make them agree
* `verify`: the whole of it
"""
