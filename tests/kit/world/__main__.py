"""usage: python -m tests.kit.world KUBECONFIG"""
import asyncio
import sys

from tests.kit.world import play

if len(sys.argv) != 2:
    sys.exit(__doc__)
asyncio.run(play(sys.argv[1]))
