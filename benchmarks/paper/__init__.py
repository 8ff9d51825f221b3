"""The paper's three experiments, one command: ``python -m benchmarks.paper``.

``published`` holds what the paper prints, ``protocol`` runs the experiments and keeps what is
done, ``report`` sets both side by side, ``figures`` draws.
"""
