package estimate

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"math"
	"os"
	"strconv"
	"sync"
	"time"
)

// pool reads files with some workers. Each holds one window of one file and
// its encoders' tables: memory does not grow with the folder.
type pool struct {
	root   *os.Root
	o      Options
	specs  []spec
	total  int64
	chance float64 // that a window is drawn

	mu      sync.Mutex
	tallies []tally
	read    int64
	unread  int64
}

// job is a file.
type job struct {
	name string
	size int64
}

func (p *pool) run(ctx context.Context) error {
	p.specs = specs(p.o)
	p.tallies = make([]tally, len(p.specs))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := make(chan job, 4*p.o.Workers)
	var wg sync.WaitGroup
	for range p.o.Workers {
		wg.Go(func() {
			w := newWorker(p)
			for j := range jobs {
				if ctx.Err() == nil {
					w.file(ctx, j)
				}
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			for i := range w.tallies {
				p.tallies[i].merge(w.tallies[i])
			}
		})
	}
	err := walk(ctx, p.root, func(name string, size int64) error {
		if size == 0 {
			return nil
		}
		select {
		case jobs <- job{name, size}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	close(jobs)
	wg.Wait()
	return errors.Join(err, ctx.Err())
}

// drawn tells whether a window is in the sample: by its name, so that the same
// seed draws the same.
func (p *pool) drawn(name string, at int64) bool {
	if p.chance >= 1 {
		return true
	}
	h := fnv.New64a()
	io.WriteString(h, strconv.FormatUint(p.o.Seed, 36)+" "+strconv.FormatInt(at, 36)+" "+name)
	v := h.Sum64()
	// FNV leaves the high bits of short names alike.
	v ^= v >> 33
	v *= 0xff51afd7ed558ccd
	v ^= v >> 33
	return float64(v>>11) < p.chance*math.Exp2(53)
}

// done counts what was read.
func (p *pool) done(n int64, unread bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read += n
	if unread {
		p.unread++
	}
	if p.o.Progress != nil {
		p.o.Progress(p.read, p.total)
	}
}

// worker has one encoder for each algorithm.
type worker struct {
	*pool
	tallies []tally
	zfs     map[string]*zfsCoder
	btrfs   map[string]*btrfsCoder
	buf     []byte // a window
	scratch []byte // a record
}

func newWorker(p *pool) *worker {
	w := &worker{pool: p, tallies: make([]tally, len(p.specs)), zfs: map[string]*zfsCoder{}, btrfs: map[string]*btrfsCoder{},
		buf: make([]byte, window), scratch: make([]byte, window)}
	for _, s := range p.specs {
		if s.FileSystem == Btrfs {
			w.btrfs[s.Name] = newBtrfs(s.Algorithm, p.o.Force)
		} else if w.zfs[s.Name] == nil {
			w.zfs[s.Name] = newZFS(s.Algorithm, p.o.Pool)
		}
	}
	return w
}

// file reads the windows of a file that are drawn.
func (w *worker) file(ctx context.Context, j job) {
	var f *os.File
	for at := int64(0); at < j.size && ctx.Err() == nil; at += window {
		if !w.drawn(j.name, at) {
			continue
		}
		if f == nil {
			var err error
			if f, err = w.root.Open(j.name); err != nil {
				w.done(0, true)
				return
			}
			defer f.Close()
			for _, b := range w.btrfs {
				b.begin()
			}
		}
		part := w.buf[:min(window, j.size-at)]
		if _, err := f.ReadAt(part, at); err != nil {
			w.done(0, true) // it has become shorter
			return
		}
		w.window(part, at, j.size)
		w.done(int64(len(part)), false)
	}
}

// window counts one window of a file for every row.
func (w *worker) window(data []byte, at, fileSize int64) {
	var last block // of the row before, where a larger record changes nothing
	var spent time.Duration
	for i, s := range w.specs {
		t := &w.tallies[i]
		start := w.o.Now()
		switch {
		case s.FileSystem == Btrfs:
			last = w.extents(s.Name, data, at, fileSize)
		case i > 0 && w.specs[i-1].Name == s.Name && w.specs[i-1].FileSystem == s.FileSystem && fileSize <= w.specs[i-1].record:
			start = start.Add(-spent) // as long as the one before
		default:
			last = block{}
			z := w.zfs[s.Name]
			records(data, fileSize, s.record, w.scratch, func(r []byte) { last.add(z.block(r)) })
			if at == 0 && last.physical > 0 {
				last.add(z.indirect(fileSize, s.record))
			}
		}
		spent = w.o.Now().Sub(start)
		if s.encoder != nil {
			t.coded += int64(len(data))
			t.spent += spent
		}
		metadata := 0.0
		if s.FileSystem == ZFS {
			metadata = zfsMetadata
		}
		t.add(int64(len(data)), last, at == 0, metadata)
	}
}

func (w *worker) extents(name string, data []byte, at, fileSize int64) block {
	var sum block
	b := w.btrfs[name]
	for off := 0; off < len(data); off += btrfsChunk {
		sum.add(b.extent(data[off:min(len(data), off+btrfsChunk)], at+int64(off), fileSize))
	}
	return sum
}

func (b *block) add(o block) {
	b.logical += o.logical
	b.physical += o.physical
	b.allocated += o.allocated
}
