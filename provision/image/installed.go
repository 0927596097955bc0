package image

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"bakeoff/base/fault"
)

// maxDatabase bounds the database of a package manager.
const maxDatabase = 64 << 20

// installed lists the packages of a root by what its package manager wrote down; nil if
// it has none that bakeoff can read. The root comes from strangers: no link out of it is
// followed.
func installed(dir string) (map[string]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, manager := range []struct {
		file  string
		parse func([]byte) map[string]string
	}{
		{"var/lib/dpkg/status", parseDpkg},
		{"lib/apk/db/installed", parseApk}, {"usr/lib/apk/db/installed", parseApk},
	} {
		b, err := read(root, manager.file)
		if err != nil {
			return nil, fault.Op(manager.file, err)
		}
		if all := manager.parse(b); len(all) > 0 {
			return all, nil
		}
	}
	return nil, nil
}

// read reads a regular file of the root; nil if there is none.
func read(root *os.Root, name string) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil // no file, or a link that leaves the root
	}
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxDatabase))
}

// parseDpkg reads /var/lib/dpkg/status: paragraphs of fields.
func parseDpkg(b []byte) map[string]string {
	return paragraphs(b, "Package: ", "Version: ", func(line string) (bool, bool) {
		status, ok := strings.CutPrefix(line, "Status: ")
		return ok, strings.HasSuffix(status, " installed")
	})
}

// parseApk reads /lib/apk/db/installed: paragraphs of lines with a letter.
func parseApk(b []byte) map[string]string {
	return paragraphs(b, "P:", "V:", func(string) (bool, bool) { return false, false })
}

// paragraphs reads a name and a version from each paragraph. state tells whether a line
// has the state of the package, and whether the package is installed.
func paragraphs(b []byte, name, version string, state func(string) (is, installed bool)) map[string]string {
	out := map[string]string{}
	var n, v string
	gone := false
	end := func() {
		if n != "" && v != "" && !gone {
			out[n] = v
		}
		n, v, gone = "", "", false
	}
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, maxDatabase+1)
	for s.Scan() {
		line := s.Text()
		if line == "" {
			end()
			continue
		}
		if text, ok := strings.CutPrefix(line, name); ok && n == "" {
			n = strings.TrimSpace(text)
		} else if text, ok := strings.CutPrefix(line, version); ok && v == "" {
			v = strings.TrimSpace(text)
		} else if is, installed := state(line); is {
			gone = !installed
		}
	}
	end()
	return out
}
