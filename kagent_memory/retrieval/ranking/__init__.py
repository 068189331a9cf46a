"""Pure ranking, the same for every store: fuse the candidates of both searches, rank, select. The
reasons for the weights are in `RankSettings`, the figures in bench/NOTES.md.
"""
