package estimate

import (
	"context"
	"hash/fnv"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// pool reads files with several workers. Each holds one window of one file, or
// a batch of them, and the tables of its encoders: memory does not grow with
// the folder.
type pool struct {
	root   *os.Root
	o      Options
	specs  []spec
	total  int64
	chance float64 // probability that a window is in the sample

	mu      sync.Mutex
	tallies []tally
	read    int64
	unread  int64
	clocked []atomic.Bool // by row: set once the measurement of the program's speed has started
}

// job is a file.
type job struct {
	name string
	size int64
}

func (p *pool) runWorkers(ctx context.Context) error {
	p.specs = rowSpecs(p.o)
	p.tallies = make([]tally, len(p.specs))
	p.clocked = make([]atomic.Bool, len(p.specs))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := make(chan job, 4*p.o.Workers)
	var wg sync.WaitGroup
	for range p.o.Workers {
		wg.Go(func() {
			w, err := newWorker(p)
			if err != nil {
				cancel(err)
				return
			}
			defer w.batch.removeFiles()
			for j := range jobs {
				if ctx.Err() == nil {
					w.readFile(ctx, j, cancel)
				}
			}
			if err := w.settlePieces(ctx); err != nil {
				cancel(err)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			for i := range w.tallies {
				p.tallies[i].addTally(w.tallies[i])
			}
		})
	}
	err := walkFiles(ctx, p.root, func(name string, size int64) error {
		if size == 0 {
			return nil
		}
		select {
		case jobs <- job{name, size}:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(jobs)
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// isSampled reports whether a window is in the sample. It depends on the name, so
// the same seed draws the same sample.
func (p *pool) isSampled(name string, at int64) bool {
	if p.chance >= 1 {
		return true
	}
	h := fnv.New64a()
	io.WriteString(h, strconv.FormatUint(p.o.Seed, 36)+" "+strconv.FormatInt(at, 36)+" "+name)
	v := h.Sum64()
	// FNV barely mixes the high bits of short names.
	v ^= v >> 33
	v *= 0xff51afd7ed558ccd
	v ^= v >> 33
	return float64(v>>11) < p.chance*math.Exp2(53)
}

// countRead counts bytes read.
func (p *pool) countRead(n int64, unread bool) {
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

	batch  *batch // nil if no algorithm needs the program
	pieces []piece
	kept   int // bytes of pieces
}

// piece is one window of a file.
type piece struct {
	data         []byte
	at, fileSize int64
	fresh        bool // the first piece of the file that is read
}

func newWorker(p *pool) (*worker, error) {
	w := &worker{pool: p, tallies: make([]tally, len(p.specs)), zfs: map[string]*zfsCoder{},
		btrfs: map[string]*btrfsCoder{},
		buf:   make([]byte, window), scratch: make([]byte, window)}
	if slices.ContainsFunc(p.specs, func(s spec) bool { return s.level > 0 }) {
		var err error
		if w.batch, err = newBatch(p.o.Program); err != nil {
			return nil, err
		}
	}
	for _, s := range p.specs {
		if s.FileSystem == Btrfs {
			w.btrfs[s.Name] = newBtrfs(s.Algorithm, p.o.Force, w.batch)
		} else if w.zfs[s.Name] == nil {
			w.zfs[s.Name] = newZFS(s.Algorithm, p.o.Pool, w.batch)
		}
	}
	return w, nil
}

// readFile reads the sampled windows of a file.
func (w *worker) readFile(ctx context.Context, j job, fail func(error)) {
	var f *os.File
	for at := int64(0); at < j.size && ctx.Err() == nil; at += window {
		if !w.isSampled(j.name, at) {
			continue
		}
		fresh := f == nil
		if fresh {
			var err error
			if f, err = w.root.Open(j.name); err != nil {
				w.countRead(0, true)
				return
			}
			defer f.Close()
		}
		part := w.buf[:min(window, j.size-at)]
		if _, err := f.ReadAt(part, at); err != nil {
			w.countRead(0, true) // the file has become shorter
			return
		}
		if err := w.takePiece(ctx, piece{part, at, j.size, fresh}); err != nil {
			fail(err)
			return
		}
	}
}

// takePiece counts a piece, or collects it for the program.
func (w *worker) takePiece(ctx context.Context, p piece) error {
	if w.batch == nil {
		w.countWindow(p)
		return nil
	}
	p.data = slices.Clone(p.data)
	w.pieces = append(w.pieces, p)
	if w.kept += len(p.data); w.kept < batchBytes {
		return nil
	}
	return w.settlePieces(ctx)
}

// settlePieces runs the program on the collected pieces, and counts them.
func (w *worker) settlePieces(ctx context.Context) error {
	if len(w.pieces) == 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := w.batch.beginBatch(); err != nil {
		return err
	}
	rows := w.questions()
	if err := w.batch.compressAsked(ctx); err != nil {
		return err
	}
	if err := w.measureSpeeds(ctx, rows); err != nil {
		return err
	}
	for _, p := range w.pieces {
		w.countWindow(p)
	}
	w.pieces, w.kept = w.pieces[:0], 0
	return w.batch.err
}

// questions processes the rows that need the program, and returns the questions of
// each at its own level.
func (w *worker) questions() map[int][]question {
	rows := map[int][]question{}
	for i, s := range w.specs {
		if s.level == 0 {
			continue
		}
		w.batch.row = nil
		var before btrfsFile // the state of a file that may continue
		if b := w.btrfs[s.Name]; b != nil {
			before = b.btrfsFile
		}
		for _, p := range w.pieces {
			w.storeWindow(s, p)
		}
		if b := w.btrfs[s.Name]; b != nil {
			b.btrfsFile = before
		}
		rows[i] = slices.DeleteFunc(w.batch.row, func(q question) bool { return q.level != s.level })
	}
	return rows
}

// measureSpeeds measures the speed of the program for each row that has records and was
// not measured yet, on the first of them. The first batch may have none: ZFS does
// not compress zeros.
func (w *worker) measureSpeeds(ctx context.Context, rows map[int][]question) error {
	for i, asked := range rows {
		var names []string
		var bytes int64
		for _, q := range asked {
			if bytes >= window || len(names) >= programFiles {
				break
			}
			names = append(names, w.batch.files[q.hash])
			bytes += w.batch.lengths[q.hash]
		}
		if bytes == 0 || w.clocked[i].Swap(true) {
			continue
		}
		speed, err := w.batch.program.measuredSpeed(ctx, w.specs[i].level, names)
		if err != nil {
			return err
		}
		if speed > 0 {
			w.tallies[i].coded += bytes
			w.tallies[i].spent += time.Duration(float64(bytes) / speed * float64(time.Second))
		}
	}
	return nil
}

// countWindow counts one window of a file for every row.
func (w *worker) countWindow(p piece) {
	var last block // of the previous row: reused if a larger record changes nothing
	var spent time.Duration
	for i, s := range w.specs {
		t := &w.tallies[i]
		start := w.o.Now()
		if i > 0 && s.FileSystem == ZFS && w.specs[i-1].Name == s.Name && p.fileSize <= w.specs[i-1].record {
			start = start.Add(-spent) // as long as the previous row
		} else {
			last = w.storeWindow(s, p)
		}
		spent = w.o.Now().Sub(start)
		if s.encoder != nil && s.level == 0 {
			t.coded += int64(len(p.data))
			t.spent += spent
		}
		metadata := 0.0
		if s.FileSystem == ZFS {
			metadata = zfsMetadata
		}
		t.addUnit(int64(len(p.data)), last, p.at == 0, metadata)
	}
	w.countRead(int64(len(p.data)), false)
}

// storeWindow stores a window of a file as row s does.
func (w *worker) storeWindow(s spec, p piece) block {
	var sum block
	if s.FileSystem == Btrfs {
		b := w.btrfs[s.Name]
		if p.fresh {
			b.beginFile()
		}
		for off := 0; off < len(p.data); off += btrfsChunk {
			sum.addBlock(b.storeExtent(p.data[off:min(len(p.data), off+btrfsChunk)], p.at+int64(off), p.fileSize))
		}
		return sum
	}
	z := w.zfs[s.Name]
	records(p.data, p.fileSize, s.record, w.scratch, func(r []byte) { sum.addBlock(z.writeRecord(r)) })
	if p.at == 0 && sum.physical > 0 {
		sum.addBlock(z.indirect(p.fileSize, s.record))
	}
	return sum
}

func (b *block) addBlock(o block) {
	b.logical += o.logical
	b.physical += o.physical
	b.allocated += o.allocated
}
