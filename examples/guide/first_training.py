# The same program in PyTorch: torchrun --nproc-per-node 2 first_training.py
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Quadrants(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        x, y = (i % 64) / 32 - 1, (i // 64) / 32 - 1
        return torch.tensor([x, y]), torch.tensor(int(x * y > 0))


def train():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = Quadrants()
    net = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=64, sampler=sampler, num_workers=2)
    for epoch in range(5):
        sampler.set_epoch(epoch)
        for data, target in loader:
            loss = torch.nn.functional.cross_entropy(model(data), target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}  loss {mean.item() / dist.get_world_size():.4f}  on {dist.get_world_size()} ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
