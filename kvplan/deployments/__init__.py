"""What a deployment file says about the engines it starts, each fact with its place.

    facts       the seventeen facts, an engine (Deployment), and what a file holds (Reading)
    text        a text whose characters know where they stand in the file
    node        a cursor through a document; documents inside strings too
    variables   references to variables, and what a file defines
    shell       a script cut into commands, never run
    dialects    the flags of each engine that are facts
    launch      a command line: which engine, which facts
    images      a container image: which engine, which version
    gpus        resources, selectors and accelerator strings
    container   one container
    pods        every pod of a Kubernetes object, gangs as one
    kinds       other kinds of files, one module each
    read        which reader a file gets

A fact that the file does not state is absent, and one that hangs on a variable that the file does
not define is unresolved: nothing is guessed. Files come from strangers; nothing in them is run.
"""
