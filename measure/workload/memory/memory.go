// Package memory is memory bandwidth and latency: passes over a block, and a
// chain of dependent loads.
package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

const (
	word = 8  // bytes of one access
	line = 64 // bytes between two nodes of the chain; blocks are multiples of it
)

// New returns the workload.
func New() workload.NativeParser {
	return workload.Native(workload.Doc{
		Summary: "The speed of memory: repeated reads, writes or copies of a block, or reads that depend on each other",
		Metrics: []sample.Metric{
			sample.Throughput("B/s", "bytes read, written or copied per second (each copied byte counts once)"),
			sample.LowerRatio("latency", "s",
				"time of one access of 8 bytes; with op=latency, each access depends on the one before; otherwise "+
					"accesses overlap"),
		},
		Allocates: allocates,
		Time:      workload.TimedFor(200 * time.Millisecond),
		Source: []string{
			"sysbench 1.0, tests/memory: passes over one buffer, word by word. The default block of sysbench (1 " +
				"KiB) measures the loop and the L1 cache; bakeoff's default is larger, and bakeoff verifies every " +
				"pass",
			"lmbench, lat_mem_rd (McVoy and Staelin 1996): a chain of pointers; bakeoff's chain is one random cycle " +
				"of cache lines, which no prefetcher can predict",
		},
	}, Loop())
}

// Loop returns the part that runs on the target.
func Loop() loop.Loop {
	return loop.Loop{
		Name: "memory",
		Params: []param.Spec{
			{Name: "op", Kind: param.Text, Default: "read", Enum: []string{"read", "write", "copy", "latency"},
				Doc: "which operation: passes over a block, or a chain of loads"},
			{Name: "block", Kind: param.Size, Default: "1MiB", Min: line, Max: 1 << 32,
				Doc: "size of the block to read, write or copy, a multiple of 64 B; a block that fits into a cache measures " +
					"that cache"},
			{Name: "size", Kind: param.Size, Default: "64MiB", Min: 2 * line, Max: 1 << 36,
				Doc: "size of the memory that the chain of op=latency covers, a multiple of 64 B"},
			workload.TimeParam,
		},
		Check: checkSize,
		Run:   runLoop,
	}
}

// sizeOf returns the size of what one operation works on, and the parameter that says it.
func sizeOf(p param.Values) (bytes int64, name string) {
	if p.Text("op") == "latency" {
		return p.Bytes("size"), "size"
	}
	return p.Bytes("block"), "block"
}

func checkSize(p param.Values) error {
	if bytes, name := sizeOf(p); bytes%line != 0 {
		return fault.New(fault.Invalid, "%s must be a multiple of %d bytes (got %d)", name, line, bytes)
	}
	return nil
}

// allocates is the memory of an operation.
func allocates(p param.Values) int64 {
	bytes, _ := sizeOf(p)
	if p.Text("op") == "copy" {
		return 2 * bytes
	}
	return bytes
}

func runLoop(ctx context.Context, p param.Values, _ loop.Env) (wire.Result, error) {
	if err := checkSize(p); err != nil {
		return wire.Result{}, err
	}
	op := p.Text("op")
	bytes, _ := sizeOf(p)
	w := map[string]func(int64) work{"read": reading, "write": writing, "copy": copying, "latency": chasing}[op](bytes)
	timing, check, err := loop.Timed{For: p.Duration("time"), Do: w.do}.Verified(ctx, w.check)
	if err != nil {
		return wire.Result{}, err
	}
	accesses := timing.Rate() * w.accesses
	return timing.Result("op", check, loop.Throughput(accesses*word, "B/s"),
		sample.Value{Metric: "latency", Unit: "s", Value: 1 / accesses}), nil
}

// work is one of the operations. Its unit is a pass over the block, or one load
// of the chain.
type work struct {
	do       func(n int) error
	check    func() (answer string, err error)
	accesses float64 // of a word, in one unit
}

// distinctWords returns distinct words, computed from their index.
func distinctWords(bytes int64) []uint64 {
	b := make([]uint64, bytes/word)
	for i := range b {
		b[i] = uint64(i+1) * 0x9e3779b97f4a7c15
	}
	return b
}

// reading adds up the block, whose sum is known.
func reading(bytes int64) work {
	b := distinctWords(bytes)
	var want uint64
	for _, v := range slices.Backward(b) {
		want += v
	}
	return work{
		accesses: float64(len(b)),
		do: func(n int) error {
			for range n {
				if got := sumWords(b); got != want {
					return loop.Mismatch("the sum of the block", got, want)
				}
			}
			return nil
		},
		check: func() (string, error) { return fmt.Sprintf("%#x", want), nil },
	}
}

// sumWords reads every word, in four chains of additions, so that it waits for
// memory and not for additions.
//
//go:noinline
func sumWords(b []uint64) uint64 {
	var s0, s1, s2, s3 uint64
	for ; len(b) >= 8; b = b[8:] {
		c := b[:8:8]
		s0 += c[0] + c[4]
		s1 += c[1] + c[5]
		s2 += c[2] + c[6]
		s3 += c[3] + c[7]
	}
	return s0 + s1 + s2 + s3
}

// writing stores a new value in every pass; at the end all words must have the
// last value.
func writing(bytes int64) work {
	b := distinctWords(bytes)
	value := uint64(1)
	return work{
		accesses: float64(len(b)),
		do: func(n int) error {
			for range n {
				value += 0x9e3779b97f4a7c15
				fillWords(b, value)
			}
			return nil
		},
		check: func() (string, error) {
			for i, got := range b {
				if got != value {
					return "", loop.Mismatch(fmt.Sprintf("word %d", i), got, value)
				}
			}
			return fmt.Sprintf("%#x", value), nil
		},
	}
}

// fillWords writes every word.
//
//go:noinline
func fillWords(b []uint64, v uint64) {
	for ; len(b) >= 8; b = b[8:] {
		c := b[:8:8]
		c[0], c[1], c[2], c[3] = v, v, v, v
		c[4], c[5], c[6], c[7] = v, v, v, v
	}
}

// copying copies one block to another with the runtime's memmove; a word of
// the source changes before each pass and must arrive.
func copying(bytes int64) work {
	src, dst := distinctWords(bytes), make([]uint64, bytes/word)
	fillWords(dst, 1) // allocate its pages
	pass := uint64(0)
	return work{
		accesses: float64(len(src)),
		do: func(n int) error {
			for range n {
				pass++
				at := pass * 7919 % uint64(len(src))
				src[at] = pass
				copy(dst, src)
				if dst[at] != pass {
					return loop.Mismatch(fmt.Sprintf("word %d of the copy", at), dst[at], pass)
				}
			}
			return nil
		},
		check: func() (string, error) {
			for i := range src {
				if src[i] != dst[i] {
					return "", loop.Mismatch(fmt.Sprintf("word %d of the copy", i), dst[i], src[i])
				}
			}
			return fmt.Sprintf("%d passes arrived", pass), nil
		},
	}
}

// node is a cache line that names the next one.
type node [line / word]uint64

// chasing loads along one random cycle through all lines. After a whole number
// of cycles it must be back at the start.
func chasing(bytes int64) work {
	nodes := randomCycle(int(bytes / line))
	at, loads := uint64(0), 0
	return work{
		accesses: 1,
		do: func(n int) error {
			at = chasePointers(nodes, at, n)
			loads += n
			return nil
		},
		check: func() (string, error) {
			rest := len(nodes) - loads%len(nodes)
			if end := chasePointers(nodes, at, rest); end != 0 {
				return "", loop.Mismatch(fmt.Sprintf("the end of %d loads", loads+rest), end, 0)
			}
			return fmt.Sprintf("%d loads end at the start", loads+rest), nil
		},
	}
}

// chasePointers does n loads, each from the address that the previous one returned.
//
//go:noinline
func chasePointers(nodes []node, at uint64, n int) uint64 {
	for range n {
		at = nodes[at][0]
	}
	return at
}

// randomCycle returns n nodes in one fixed random cycle.
//
// Source: S. Sattolo, "An algorithm to generate a random cyclic permutation",
// Information Processing Letters 22 (1986).
func randomCycle(n int) []node {
	nodes := make([]node, n)
	for i := range nodes {
		nodes[i][0] = uint64(i)
	}
	state := uint64(1)
	for i := n - 1; i > 0; i-- {
		state = state*6364136223846793005 + 1442695040888963407
		j := int((state >> 33) % uint64(i))
		nodes[i][0], nodes[j][0] = nodes[j][0], nodes[i][0]
	}
	return nodes
}
