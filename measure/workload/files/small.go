package files

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// present is the constant number of small files.
const present = 512

func (s settings) smallDir() string { return filepath.Join(s.dir, "small") }

// small creates a file, looks up another and deletes a third in each operation.
type small struct {
	settings
	*timer
	folder  folder
	names   [2 * present]string
	content []byte
	next    int // the number of the next file
	disk    disk
}

func openSmall(s settings, t *timer) (*small, error) {
	if err := os.RemoveAll(s.smallDir()); err != nil {
		return nil, err
	}
	if err := os.Mkdir(s.smallDir(), 0o700); err != nil {
		return nil, err
	}
	at, err := openFolder(s.smallDir())
	if err != nil {
		return nil, err
	}
	w := &small{settings: s, timer: t, folder: at, content: pattern(s.block)}
	for i := range w.names {
		w.names[i] = fmt.Sprintf("file-%04d", i)
	}
	for range present {
		if err := w.create(); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

func (w *small) close() { w.folder.close() }

func (w *small) name(i int) string { return w.names[i%len(w.names)] }

func (w *small) do(n int) error {
	for range n {
		from := w.now()
		if err := w.create(); err != nil {
			return err
		}
		if err := w.stat(w.next - present/2); err != nil {
			return err
		}
		old := w.name(w.next - present - 1)
		if err := w.folder.remove(old); err != nil {
			return fmt.Errorf("delete %s: %w", old, err)
		}
		if w.fsync == "end" && w.on && w.next%present == 0 {
			if err := w.folder.sync(); err != nil {
				return err
			}
		}
		w.record(from)
	}
	return nil
}

// create makes the next file, with content.
func (w *small) create() error {
	name := w.name(w.next)
	fd, err := w.folder.create(name)
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	stampBlock(w.content, uint64(w.next), 0)
	w.next++
	if err := writeAll(fd, w.content, -1); err != nil {
		_ = closeFile(fd)
		return fmt.Errorf("write %s: %w", name, err)
	}
	if w.fsync == "each" {
		if err := syncFile(fd); err != nil {
			_ = closeFile(fd)
			return fmt.Errorf("fsync %s: %w", name, err)
		}
		if w.on {
			w.disk.WriteBytes += float64(w.block)
		}
	}
	if err := closeFile(fd); err != nil {
		return fmt.Errorf("close %s: %w", name, err)
	}
	return nil
}

// stat checks the size of a file.
func (w *small) stat(i int) error {
	size, err := w.folder.size(w.name(i))
	if err != nil {
		return fmt.Errorf("stat %s: %w", w.name(i), err)
	}
	if size != w.block {
		return loop.Mismatch("the size of "+w.name(i), size, w.block)
	}
	return nil
}

// forced counts the content of files that were synced one by one. The content
// of other short-lived files need not reach the disk.
func (w *small) forced() *wire.Forced { return w.disk.forced() }

func (w *small) begin() error {
	w.on = true
	if w.fsync == "end" {
		return w.folder.sync()
	}
	return nil
}

func (w *small) finish() error {
	w.on = false
	if w.fsync == "end" {
		return w.folder.sync()
	}
	return nil
}

// check verifies that exactly the expected files exist, with their content.
func (w *small) check() (string, error) {
	entries, err := os.ReadDir(w.smallDir())
	if err != nil {
		return "", err
	}
	if len(entries) != present {
		return "", loop.Mismatch("the number of files", len(entries), present)
	}
	for i := w.next - present; i < w.next; i++ {
		got, err := os.ReadFile(filepath.Join(w.smallDir(), w.name(i)))
		if err != nil {
			return "", err
		}
		stampBlock(w.content, uint64(i), 0)
		if !bytes.Equal(got, w.content) {
			return "", loop.Mismatch("the content of "+w.name(i), "another", "what was written")
		}
	}
	return fmt.Sprintf("%d files have their content", present), nil
}
