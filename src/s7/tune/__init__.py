"""Hyperparameter search with Optuna: trials of one task with settings from a search space.

    search = Search.open(SearchConfig("pendulum", space=space), Path("runs/tune-pendulum"))
    search.allow(minutes=20)
    Worker(search).run()
    print(Summary.read(search.out).text())

Any number of workers may share a search. Nothing here imports Optuna until a search is opened.
"""
