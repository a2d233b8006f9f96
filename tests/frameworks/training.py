"""A training of a small GPT, as a user would write it, for the pictures of the documents and for what reports say of lines.

usage: training.py [leak]    leak: keeps each step's logits, which is the fault that a report is to find
"""
import sys

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=8192, width=512, layers=6, heads=8):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train(steps, kept):
    torch.manual_seed(0)
    model = GPT().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    loss_of = nn.CrossEntropyLoss()
    for step in range(steps):
        tokens = torch.zeros(8, 256 if step % 3 else 384, dtype=torch.long, device="cuda")
        logits = model(tokens)
        loss = loss_of(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if kept is not None:
            kept.append(logits.detach().clone())
    torch.cuda.synchronize()


if __name__ == "__main__":
    train(6, [] if sys.argv[1:] == ["leak"] else None)
