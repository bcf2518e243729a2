"""Texts of structured files (YAML, JSON) into plain data, where every value keeps its place.

    policy      what a kind of file may hold: specs little, deployment files much
    files       a file's bytes and text, within bounds
    from_yaml   one YAML document, or a stream of them; builder, scalars: how
    from_json   JSON; json_scan: what is wrong with it, and where each key stands
    document    what comes out: data, and a place for whoever asks

Reading is the same for all; what is refused, reported or taken is the policy's to say. Files come
from strangers, so nothing here recurses over them, and their size, depth and number of values are
bounded.
"""
