package files

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// The large file consists of blocks of one pattern. The first word of a block
// is its number, the last one its stamp: 0 at first, a new number for every
// written block.

// path is the large file; each block size has its own.
func (s settings) path() string {
	return filepath.Join(s.dir, largeName(s.size, s.block))
}

func largeName(size, block int64) string { return fmt.Sprintf("large-%d-%d", size, block) }

// pattern returns a block of bytes that do not compress.
func pattern(size int64) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b) // never fails
	return b
}

// stampBlock writes the number of a block and its stamp into it.
func stampBlock(b []byte, number, mark uint64) {
	binary.LittleEndian.PutUint64(b, number)
	binary.LittleEndian.PutUint64(b[len(b)-8:], mark)
}

// layOut writes the large file unless it exists.
func layOut(ctx context.Context, s settings) error {
	if st, err := os.Stat(s.path()); err == nil && st.Size() == s.size {
		return nil
	}
	// Use another name first, so that an incomplete file is not mistaken
	// for the whole.
	tmp := s.path() + ".part"
	f, err := os.Create(tmp)
	if err != nil {
		return err
	}
	err = errors.Join(writePattern(ctx, f, s), f.Close())
	if err == nil {
		err = os.Rename(tmp, s.path())
	}
	if err != nil {
		os.Remove(tmp)
	}
	return err
}

// writePattern writes the blocks of the large file and syncs them.
func writePattern(ctx context.Context, f *os.File, s settings) error {
	b := pattern(s.block)
	for i := range s.size / s.block {
		if err := ctx.Err(); err != nil {
			return err
		}
		stampBlock(b, uint64(i), 0)
		if _, err := f.Write(b); err != nil {
			return err
		}
	}
	return f.Sync()
}

// large reads or writes the blocks of the large file.
type large struct {
	settings
	*timer
	fd      descriptor
	blocks  int
	order   []uint32 // of a pass; nil: ascending
	next    int      // operation
	write   bool
	mark    uint64   // of the block written last
	marks   []uint64 // of each block as written by this trial; 0: not
	pattern []byte
	buf     []byte
	notes   []string
	disk    disk
}

func openLarge(s settings, t *timer) (*large, error) {
	w := &large{settings: s, timer: t, blocks: int(s.size / s.block), write: strings.HasSuffix(s.op, "write")}
	mode := toRead
	if w.write {
		mode = toUpdate
	}
	var err error
	if w.fd, err = openFile(s.path(), mode); err != nil {
		return nil, fmt.Errorf("open %s (run `work files --stage prepare` first): %w", s.path(), err)
	}
	w.pattern, w.buf = pattern(s.block), pattern(s.block)
	if strings.HasPrefix(s.op, "rand") {
		w.order = permutation(w.blocks)
	}
	if w.write {
		w.marks = make([]uint64, w.blocks)
		w.mark = uint64(time.Now().UnixNano()) // unique for this trial
	}
	return w, nil
}

// permutation returns the numbers below n in a fixed random order.
func permutation(n int) []uint32 {
	order := make([]uint32, n)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range order {
		j := r.IntN(i + 1)
		order[i] = order[j]
		order[j] = uint32(i)
	}
	return order
}

func (w *large) close() { _ = closeFile(w.fd) }

// blockOf is the block of operation i.
func (w *large) blockOf(i int) int {
	i %= w.blocks
	if w.order != nil {
		return int(w.order[i])
	}
	return i
}

func (w *large) do(n int) error {
	for range n {
		block := w.blockOf(w.next)
		w.next++
		passed := w.next%w.blocks == 0
		from := w.now()
		var err error
		if w.write {
			err = w.writeBlock(block, passed)
		} else {
			err = w.readBlock(block)
		}
		if err != nil {
			return err
		}
		w.record(from)
		if w.cold && w.on {
			w.disk.ReadBytes += float64(w.block)
		}
		if passed && w.cold && w.on {
			return loop.ErrEnough
		}
	}
	return nil
}

// readBlock reads a block and checks its number and one of its words, a
// different one each time.
func (w *large) readBlock(block int) error {
	if err := readAll(w.fd, w.buf, int64(block)*w.block); err != nil {
		return fmt.Errorf("read block %d: %w", block, err)
	}
	if got := binary.LittleEndian.Uint64(w.buf); got != uint64(block) {
		return loop.Mismatch(fmt.Sprintf("the number in block %d", block), got, block)
	}
	if words := len(w.buf)/8 - 2; words > 0 {
		at := 8 + w.next%words*8
		if !bytes.Equal(w.buf[at:at+8], w.pattern[at:at+8]) {
			return loop.Mismatch(fmt.Sprintf("byte %d of block %d", at, block), w.buf[at:at+8], w.pattern[at:at+8])
		}
	}
	return nil
}

// writeBlock writes a block with a new stamp.
func (w *large) writeBlock(block int, passed bool) error {
	w.mark++
	w.marks[block] = w.mark
	stampBlock(w.pattern, uint64(block), w.mark)
	if err := writeAll(w.fd, w.pattern, int64(block)*w.block); err != nil {
		return fmt.Errorf("write block %d: %w", block, err)
	}
	w.disk.unsafe += w.block
	if w.fsync == "each" || (passed && w.on && w.fsync == "end") {
		return w.sync()
	}
	return nil
}

// disk counts what a file forces the disk to do.
type disk struct {
	wire.Forced
	unsafe int64 // bytes written since the last fsync
}

// sync forces the written data of a file of size bytes to the disk, and counts
// them if timed. A block written twice since the last sync counts once.
func (d *disk) sync(fd descriptor, size int64, timed bool) error {
	if err := syncFile(fd); err != nil {
		return fmt.Errorf("fsync: %w", err)
	}
	if timed {
		d.WriteBytes += float64(min(d.unsafe, size))
	}
	d.unsafe = 0
	return nil
}

func (d *disk) forced() *wire.Forced {
	if d.Forced == (wire.Forced{}) {
		return nil
	}
	return &d.Forced
}

func (w *large) sync() error { return w.disk.sync(w.fd, w.size, w.on) }

func (w *large) forced() *wire.Forced { return w.disk.forced() }

// begin starts a new pass: it syncs written data, and drops from memory what
// will be read cold.
func (w *large) begin() error {
	w.next = 0
	if w.write && w.fsync != "none" {
		if err := w.sync(); err != nil {
			return err
		}
	}
	w.on = true
	if !w.cold {
		return nil
	}
	note, err := evictPages(w.fd, w.size)
	w.notes = append(w.notes, note)
	return fault.Op("make the cache cold", err)
}

func (w *large) finish() error {
	defer func() { w.on = false }()
	if w.write && w.fsync == "end" {
		return w.sync()
	}
	return nil
}

// Bounds of the blocks that are read back after a trial.
const (
	checked      = 4096
	checkedBytes = 64 << 20
)

// check reads all blocks back, or evenly spread ones, and compares them with
// what was written last.
func (w *large) check() (string, error) {
	step := max(1, w.blocks/checked, int(w.size/checkedBytes))
	n := 0
	for block := 0; block < w.blocks; block += step {
		if err := readAll(w.fd, w.buf, int64(block)*w.block); err != nil {
			return "", fmt.Errorf("read block %d: %w", block, err)
		}
		mark := binary.LittleEndian.Uint64(w.buf[w.block-8:])
		if w.marks != nil && w.marks[block] != 0 && mark != w.marks[block] {
			return "", loop.Mismatch(fmt.Sprintf("the stamp of block %d", block), mark, w.marks[block])
		}
		stampBlock(w.pattern, uint64(block), mark)
		if !bytes.Equal(w.buf, w.pattern) {
			return "", loop.Mismatch(fmt.Sprintf("the content of block %d", block), "another", "the pattern")
		}
		n++
	}
	return strings.Join(append([]string{fmt.Sprintf("%d blocks have their content", n)}, w.notes...), ", "), nil
}

// readAll fills b from offset, or from the current one with a negative one.
func readAll(fd descriptor, b []byte, offset int64) error {
	for len(b) > 0 {
		n, err := readAt(fd, b, offset)
		switch {
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		b, offset = b[n:], following(offset, n)
	}
	return nil
}

// writeAll writes b at offset, or at the end with a negative one.
func writeAll(fd descriptor, b []byte, offset int64) error {
	for len(b) > 0 {
		n, err := writeAt(fd, b, offset)
		if err != nil {
			return err
		}
		b, offset = b[n:], following(offset, n)
	}
	return nil
}

// following is the offset after n bytes; a negative one stays.
func following(offset int64, n int) int64 {
	if offset < 0 {
		return offset
	}
	return offset + int64(n)
}
