package estimate

import (
	"context"
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/measure/codec"
)

// batchBytes is how much of the folder a worker collects before it starts the
// program. The copies as records take that much again for each record size, in
// the folder of temporary files.
const batchBytes = 4 << 20

// batch compresses records with the program zstd, which is too slow to start
// for each record. The worker processes all rows twice. In the first pass,
// encoders only collect questions, and answer that a record vanishes, so that
// no rule skips a question. Then the program answers all of them at once, and
// the second pass uses the answers.
type batch struct {
	program *Program
	dir     string
	seed    maphash.Seed
	asking  bool
	files   map[uint64]string  // file of a record, by its hash
	lengths map[uint64]int64   // of the records, in bytes
	asked   map[int][]uint64   // by level
	frames  map[question]frame // and their answers
	row     []question         // the questions of the current row
	err     error
}

type question struct {
	level int
	hash  uint64
}

func newBatch(p *Program) (*batch, error) {
	dir, err := os.MkdirTemp("", "bakeoff-estimate-")
	if err != nil {
		return nil, fault.Op("temporary files", err)
	}
	return &batch{program: p, dir: dir, seed: maphash.MakeSeed()}, nil
}

func (b *batch) removeFiles() {
	if b != nil {
		os.RemoveAll(b.dir)
	}
}

// beginBatch discards the previous records.
func (b *batch) beginBatch() error {
	for _, f := range b.files {
		if err := os.Remove(f); err != nil {
			return fault.Op("temporary files", err)
		}
	}
	b.files, b.lengths = map[uint64]string{}, map[uint64]int64{}
	b.asked, b.frames, b.asking = map[int][]uint64{}, map[question]frame{}, true
	return nil
}

// addRecord adds a record. The same content has the same answer, and is asked once.
func (b *batch) addRecord(level int, record []byte) {
	h := maphash.Bytes(b.seed, record)
	q := question{level, h}
	b.row = append(b.row, q)
	if _, known := b.frames[q]; known || b.err != nil {
		return
	}
	b.frames[q] = frame{}
	b.asked[level] = append(b.asked[level], h)
	if _, written := b.files[h]; !written {
		b.files[h] = filepath.Join(b.dir, strconv.Itoa(len(b.files)))
		b.lengths[h] = int64(len(record))
		b.err = os.WriteFile(b.files[h], record, 0o600)
	}
}

// compressAsked compresses all records that were asked for.
func (b *batch) compressAsked(ctx context.Context) error {
	b.asking = false
	if b.err != nil {
		return fault.Op("temporary files", b.err)
	}
	for level, hashes := range b.asked {
		frames, err := b.program.frameSizes(ctx, level, b.fileNames(hashes))
		if err != nil {
			return err
		}
		for i, h := range hashes {
			b.frames[question{level, h}] = frames[i]
		}
	}
	return nil
}

func (b *batch) fileNames(hashes []uint64) []string {
	return lists.Map(hashes, func(h uint64) string { return b.files[h] })
}

// outside is an encoder that uses the program. Its result has the right length,
// but no content.
type outside struct {
	*batch
	level int
	bare  bool // as ZFS has it: see bareHeader
}

// bareHeader is the length of a frame's header on ZFS: without magic number and
// length, but with a window size.
//
// Source: zstd_compress_buf in module/zstd/zfs_zstd.c of OpenZFS.
const bareHeader = 2

// Encode compresses.
func (o outside) Encode(dst, src []byte, limit int) ([]byte, bool) {
	if o.asking {
		o.addRecord(o.level, src)
		return dst, true
	}
	f, known := o.frames[question{o.level, maphash.Bytes(o.seed, src)}]
	if !known && o.err == nil {
		o.err = fault.New(fault.Lab, "a record of %d bytes is missing in the batch", len(src))
	}
	n := f.size
	if o.bare {
		n += bareHeader - f.header
	}
	return slices.Grow(dst, n)[:len(dst)+n], n <= limit
}

// bare is an encoder that strips frames as ZFS does.
type bare struct{ enc codec.Encoder }

// Encode compresses.
func (b bare) Encode(dst, src []byte, limit int) ([]byte, bool) {
	out, ok := b.enc.Encode(dst, src, limit+bareHeader)
	if _, header, err := codec.ZstdFrame(out[len(dst):]); err == nil {
		out = out[:len(out)+bareHeader-header]
		ok = len(out)-len(dst) <= limit
	}
	return out, ok
}
