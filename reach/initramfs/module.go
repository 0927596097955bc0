package initramfs

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"bakeoff/base/fault"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// maxModule bounds an uncompressed module, in bytes.
const maxModule = 64 << 20

// Tree is the modules of one kernel: the directory lib/modules/VERSION.
//
// It reads what the modules say of themselves and not modules.dep, which is
// made when a kernel package is installed: an unpacked one lacks it.
type Tree struct {
	fsys    fs.FS
	files   map[string]string // module's name → path in fsys
	builtin map[string]bool
	loaded  map[string][]byte // uncompressed
}

var suffixes = []string{".ko", ".ko.xz", ".ko.zst", ".ko.gz"}

// OpenTree lists the modules in fsys.
func OpenTree(fsys fs.FS) (*Tree, error) {
	t := &Tree{fsys: fsys, files: map[string]string{}, builtin: map[string]bool{}, loaded: map[string][]byte{}}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		for _, s := range suffixes {
			if name, ok := strings.CutSuffix(path.Base(p), s); ok && d.Type().IsRegular() {
				t.files[canonical(name)] = p
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list, err := fs.ReadFile(fsys, "modules.builtin")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(list)) {
		name, _ := strings.CutSuffix(path.Base(strings.TrimSpace(line)), ".ko")
		t.builtin[canonical(name)] = true
	}
	return t, nil
}

// canonical is a module's name as the kernel has it: - and _ are the same.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// Order returns the names of the modules to be loaded for wanted, each after
// all that it depends on. What is built into the kernel is left out. A module
// that the kernel does not have is an error of kind fault.Unsupported.
func (t *Tree) Order(wanted []string) ([]string, error) {
	var order []string
	state := map[string]int{} // 1: being visited, 2: done
	var visit func(name string, soft bool) error
	visit = func(name string, soft bool) error {
		name = canonical(name)
		file, found := t.files[name]
		if t.builtin[name] || state[name] == 2 || soft && !found {
			return nil
		}
		if !found {
			return fault.New(fault.Unsupported, "the kernel has no module %s", name)
		}
		if state[name] == 1 {
			return fault.New(fault.Unsupported, "module %s depends on itself", name)
		}
		state[name] = 1
		data, err := t.read(file)
		if err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
		depends, before, err := dependencies(data)
		if err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
		for _, d := range before {
			// Cryptography is asked for by its algorithm, an alias
			// (crypto-crc32c); the module that every kernel has it in is
			// called after it (crc32c_generic).
			if d = canonical(d); t.files[d] == "" && !t.builtin[d] {
				d = strings.TrimPrefix(d, "crypto_") + "_generic"
			}
			// A soft dependency that goes round is nothing to wait for.
			if state[canonical(d)] != 1 {
				if err := visit(d, true); err != nil {
					return err
				}
			}
		}
		for _, d := range depends {
			if err := visit(d, false); err != nil {
				return err
			}
		}
		state[name] = 2
		t.loaded[name] = data
		order = append(order, name)
		return nil
	}
	for _, w := range wanted {
		if err := visit(w, false); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// read returns a module uncompressed.
func (t *Tree) read(file string) ([]byte, error) {
	f, err := t.fsys.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	switch path.Ext(file) {
	case ".xz":
		r, err = xz.NewReader(f)
	case ".gz":
		r, err = gzip.NewReader(f)
	case ".zst":
		var d *zstd.Decoder
		d, err = zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxModule))
		if err == nil {
			defer d.Close()
			r = d
		}
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxModule+1))
	if err == nil && len(data) > maxModule {
		err = fmt.Errorf("it has more than %d bytes", maxModule)
	}
	return data, err
}

// dependencies reads what a module says of itself: the modules that it
// depends on, and those that it would like to have loaded before it
// ("softdep=pre: a b post: c").
func dependencies(module []byte) (depends, before []string, err error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, nil, errors.New("it has no section .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, nil, err
	}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		key, value, _ := strings.Cut(string(entry), "=")
		switch key {
		case "depends":
			depends = append(depends, strings.FieldsFunc(value, func(r rune) bool { return r == ',' })...)
		case "softdep":
			pre := false
			for _, w := range strings.Fields(value) {
				if strings.HasSuffix(w, ":") {
					pre = w == "pre:"
				} else if pre {
					before = append(before, w)
				}
			}
		}
	}
	return slices.Clip(depends), slices.Clip(before), nil
}
