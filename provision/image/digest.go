package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// hashTree hashes a tree: for every entry, in path order, its path, type,
// permission bits, link target and content. Times are left out, so that the
// same packages give the same digest on another day.
func hashTree(root string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %v", rel, info.Mode())
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(h, " -> %q", target)
		case info.Mode().IsRegular():
			fmt.Fprintf(h, " %d ", info.Size())
			if err := copyFile(h, path); err != nil {
				return err
			}
		}
		_, err = h.Write([]byte{'\n'})
		return err
	})
	if err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// sizeOnDisk returns the size of all regular files below root, each rounded up to 4
// KiB, plus one block for every other entry.
func sizeOnDisk(root string) (int64, error) {
	var n int64
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n += 4096
		if info.Mode().IsRegular() {
			n += (info.Size() + 4095) &^ 4095
		}
		return nil
	})
	return n, err
}
