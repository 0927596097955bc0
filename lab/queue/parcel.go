package queue

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/shell"
)

// The names in a parcel, which Slurm carries to the host as comments of the job's script.
const (
	orderFile = "order.json"
	labFolder = "lab"
)

// maxScript is the largest script that a controller accepts by default, in bytes:
// max_script_size of slurm.conf(5).
const maxScript = 4 << 20

// Bounds of an archive. It may be a stranger's.
const (
	maxFiles     = 1 << 20
	maxUnpacked  = 64 << 30 // bytes
	maxParcelled = 256 << 20
)

// Source is a file or folder that a lab needs, and its name below the folder of the lab.
type Source struct{ Path, Name string }

// Parcel packs an order with its lab file and the files that this names.
func Parcel(o Order, lab []byte, sources []Source) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	order, err := json.Marshal(o)
	if err == nil {
		err = addBytes(t, orderFile, order)
	}
	if err == nil && lab != nil {
		err = addBytes(t, labFolder+"/bakeoff.yaml", lab)
	}
	for _, s := range sources {
		if err == nil {
			err = addTree(t, s.Path, path.Join(labFolder, s.Name))
		}
	}
	if err := errors.Join(err, t.Close(), z.Close()); err != nil {
		return nil, fault.Op("queue", err)
	}
	if size := base64.StdEncoding.EncodedLen(out.Len()); size > maxScript-64<<10 {
		return nil, fault.WithFix(fault.New(fault.Invalid,
			"the lab file and its files have %d bytes when packed; a job of Slurm carries at most %d", size, maxScript-64<<10),
			"put large files into an image, or on the hosts")
	}
	return out.Bytes(), nil
}

func addBytes(t *tar.Writer, name string, data []byte) error {
	h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data)), ModTime: time.Now()}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := t.Write(data)
	return err
}

// addTree adds a file, or a folder with all regular files in it.
func addTree(t *tar.Writer, from, name string) error {
	return filepath.WalkDir(from, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := os.Stat(at) // a link is its file
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}
		f, err := os.Open(at)
		if err != nil {
			return err
		}
		defer f.Close()
		h := &tar.Header{Name: path.Join(name, filepath.ToSlash(rel)), Typeflag: tar.TypeReg,
			Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime()}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err = io.CopyN(t, f, h.Size) // it may grow meanwhile
		return err
	})
}

// unpackFrom writes the files of a tar archive below root: at most most bytes.
func unpackFrom(t *tar.Reader, root *os.Root, most int64) error {
	for n := 0; ; n++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.Wrap(fault.Invalid, "archive", err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		name := filepath.FromSlash(h.Name)
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(name) {
			return fault.New(fault.Invalid, "archive: %q is not a file below the folder", h.Name)
		}
		if most -= h.Size; most < 0 || n > maxFiles {
			return fault.New(fault.Invalid, "archive: the file is larger than permitted")
		}
		if err := unpackFile(t, root, name, fs.FileMode(h.Mode).Perm()); err != nil {
			return fault.Op("archive", err)
		}
	}
}

func unpackFile(r io.Reader, root *os.Root, name string, mode fs.FileMode) error {
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// mark begins the lines of a script that hold the parcel.
const mark = "#:"

// script is the job's: it becomes bakeoff, which reads its parcel from the script.
func script(c *Cluster, uuid string, binds []string, parcel []byte) []byte {
	var b strings.Builder
	// The login of a user who has no shell sets no PATH.
	b.WriteString("#!/bin/sh\n" +
		"PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport PATH\n")
	fmt.Fprintf(&b, "exec %s queue node job %s \"$0\"", shell.Quote(c.Program...), shell.Quote(uuid))
	for _, bind := range binds {
		b.WriteString(" " + shell.Quote(bind))
	}
	b.WriteString("\n")
	text := base64.StdEncoding.EncodeToString(parcel)
	for len(text) > 0 {
		n := min(len(text), 4000)
		b.WriteString(mark + text[:n] + "\n")
		text = text[n:]
	}
	return []byte(b.String())
}

// parcelOf reads the parcel of a script.
func parcelOf(script []byte) ([]byte, error) {
	var text strings.Builder
	for l := range strings.Lines(string(script)) {
		if part, ok := strings.CutPrefix(l, mark); ok {
			text.WriteString(strings.TrimSpace(part))
		}
	}
	parcel, err := base64.StdEncoding.DecodeString(text.String())
	if err == nil && len(parcel) == 0 {
		err = errors.New("the script does not contain the packed lab file")
	}
	return parcel, fault.Wrap(fault.Invalid, "the script of the job", err)
}

// openParcel unpacks a parcel into a folder.
func openParcel(parcel []byte, dir string) error {
	z, err := gzip.NewReader(bytes.NewReader(parcel))
	if err != nil {
		return fault.Wrap(fault.Invalid, "parcel", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.Op("parcel", err)
	}
	defer root.Close()
	return unpackFrom(tar.NewReader(z), root, maxParcelled)
}
