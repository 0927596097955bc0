package files

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"bakeoff/reach/loop"
	"bakeoff/reach/wire"

	"golang.org/x/sys/unix"
)

// present is the constant number of small files.
const present = 512

func (s settings) smallDir() string { return filepath.Join(s.dir, "small") }

// small creates a file, looks up another and deletes a third in each operation.
// Names are relative to an open directory, so the length of its path does not
// matter.
type small struct {
	settings
	*timer
	dirfd   int
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
	fd, err := unix.Open(s.smallDir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s.smallDir(), err)
	}
	w := &small{settings: s, timer: t, dirfd: fd, content: pattern(s.block)}
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

func (w *small) close() { unix.Close(w.dirfd) }

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
		if err := unix.Unlinkat(w.dirfd, old, 0); err != nil {
			return fmt.Errorf("delete %s: %w", old, err)
		}
		if w.fsync == "end" && w.on && w.next%present == 0 {
			if err := w.syncDir(); err != nil {
				return err
			}
		}
		w.took(from)
	}
	return nil
}

// create makes the next file, with content.
func (w *small) create() error {
	name := w.name(w.next)
	fd, err := unix.Openat(w.dirfd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	stamp(w.content, uint64(w.next), 0)
	w.next++
	if err := writeAll(fd, w.content, -1); err != nil {
		unix.Close(fd)
		return fmt.Errorf("write %s: %w", name, err)
	}
	if w.fsync == "each" {
		if err := unix.Fsync(fd); err != nil {
			unix.Close(fd)
			return fmt.Errorf("fsync %s: %w", name, err)
		}
		if w.on {
			w.disk.WriteBytes += float64(w.block)
		}
	}
	if err := unix.Close(fd); err != nil {
		return fmt.Errorf("close %s: %w", name, err)
	}
	return nil
}

// stat checks the size of a file.
func (w *small) stat(i int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(w.dirfd, w.name(i), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("stat %s: %w", w.name(i), err)
	}
	if st.Size != w.block {
		return loop.Mismatch("the size of "+w.name(i), st.Size, w.block)
	}
	return nil
}

// syncDir forces the names to the disk. Some file systems do not support fsync
// of a directory; they have no alternative.
func (w *small) syncDir() error {
	if err := unix.Fsync(w.dirfd); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("fsync the directory: %w", err)
	}
	return nil
}

// forced counts the content of files that were synced one by one. The content
// of other short-lived files need not reach the disk.
func (w *small) forced() *wire.Forced { return w.disk.forced() }

func (w *small) begin() error {
	w.on = true
	if w.fsync == "end" {
		return w.syncDir()
	}
	return nil
}

func (w *small) finish() error {
	w.on = false
	if w.fsync == "end" {
		return w.syncDir()
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
		stamp(w.content, uint64(i), 0)
		if !bytes.Equal(got, w.content) {
			return "", loop.Mismatch("the content of "+w.name(i), "another", "what was written")
		}
	}
	return fmt.Sprintf("%d files have their content", present), nil
}
