"""torchrun itself, which starts processes and watches over them."""

from torch.distributed.run import main

if __name__ == "__main__":
    main()
