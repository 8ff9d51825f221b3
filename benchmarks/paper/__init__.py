"""The paper's three experiments, one command: ``python -m benchmarks.paper``.

``published`` holds what the paper prints, ``protocol`` runs the experiments and keeps what is
done, ``tables`` set both side by side, ``report`` adds findings and the words of ``notes``,
``figures`` draws. ``curves`` simulates the data of one more experiment.
"""
