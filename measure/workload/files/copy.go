package files

import (
	"fmt"
	"os"

	"bakeoff/base/fault"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// copying reads the large file block by block and writes each block to a
// second file, which is overwritten from its start when the first one ends.
type copying struct {
	from *large
	to   descriptor
	path string
	next int // block
	disk disk
}

// openCopy opens both files. It recreates the second one, which close removes.
func openCopy(s settings, t *timer) (*copying, error) {
	from, err := openLarge(s, t)
	if err != nil {
		return nil, err
	}
	c := &copying{from: from, path: s.path() + ".copy"}
	if c.to, err = openFile(c.path, toReplace); err != nil {
		from.close()
		return nil, fmt.Errorf("make %s: %w", c.path, err)
	}
	return c, nil
}

// do copies n blocks at the current offsets of both files, as a copying program
// does.
func (c *copying) do(n int) error {
	w := c.from
	for range n {
		from := w.now()
		if err := c.block(); err != nil {
			return fmt.Errorf("copy block %d: %w", c.next, err)
		}
		if c.next++; c.next == w.blocks {
			if err := c.rewind(); err != nil {
				return err
			}
		}
		w.record(from)
	}
	return nil
}

func (c *copying) block() error {
	if err := readAll(c.from.fd, c.from.buf, -1); err != nil {
		return err
	}
	if err := writeAll(c.to, c.from.buf, -1); err != nil {
		return err
	}
	c.disk.unsafe += c.from.block
	if c.from.fsync == "each" {
		return c.sync()
	}
	return nil
}

// sync forces the copy to the disk.
func (c *copying) sync() error { return c.disk.sync(c.to, c.from.size, c.from.on) }

func (c *copying) forced() *wire.Forced { return c.disk.forced() }

// rewind ends a pass: it syncs the copy if every pass must be on the disk, and
// rewinds both files.
func (c *copying) rewind() error {
	c.next = 0
	if c.from.fsync == "end" && c.from.on {
		if err := c.sync(); err != nil {
			return err
		}
	}
	for _, fd := range []descriptor{c.from.fd, c.to} {
		if err := rewindFile(fd); err != nil {
			return fmt.Errorf("rewind: %w", err)
		}
	}
	return nil
}

func (c *copying) begin() error {
	if err := c.rewind(); err != nil {
		return err
	}
	if c.from.fsync != "none" { // what the checks copied does not belong to the timed part
		if err := c.sync(); err != nil {
			return err
		}
	}
	return c.from.begin()
}

func (c *copying) finish() error {
	defer func() { c.from.on = false }()
	if c.from.fsync == "end" {
		return c.sync()
	}
	return nil
}

// check completes the last pass and compares the copy with the initial content
// of the large file.
func (c *copying) check() (string, error) {
	for c.next != 0 {
		if err := c.do(1); err != nil {
			return "", err
		}
	}
	size, err := sizeOf(c.to)
	if err != nil {
		return "", fmt.Errorf("stat the copy: %w", err)
	}
	if size != c.from.size {
		return "", loop.Mismatch("the size of the copy", size, c.from.size)
	}
	source := c.from.fd
	c.from.fd = c.to
	answer, err := c.from.check()
	c.from.fd = source
	return answer, fault.Op("the copy", err)
}

func (c *copying) close() {
	c.from.close()
	_ = closeFile(c.to)
	os.Remove(c.path)
}
