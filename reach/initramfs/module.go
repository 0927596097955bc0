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

// maxModule bounds the size of an uncompressed module, in bytes.
const maxModule = 64 << 20

// Tree holds the modules of one kernel: the directory lib/modules/VERSION.
//
// It reads the modules' own metadata instead of modules.dep, which is created
// when a kernel package is installed and is missing in an unpacked one.
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

// canonical returns a module's name as the kernel has it: - and _ are
// equivalent.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// The states of a module.
const (
	BuiltIn  = "built-in"
	Loadable = "module"
	Absent   = "missing"
	Unclear  = "unknown" // the list of built-in modules is missing
)

// State tells how the kernel has the module name.
func (t *Tree) State(name string) string {
	name = canonical(name)
	switch {
	case t.files[name] != "":
		return Loadable
	case t.builtin[name]:
		return BuiltIn
	case len(t.builtin) == 0:
		return Unclear
	}
	return Absent
}

// Parameters returns the names of the parameters of a module that can be loaded.
func (t *Tree) Parameters(name string) (map[string]bool, error) {
	file, ok := t.files[canonical(name)]
	if !ok {
		return nil, fault.New(fault.NotFound, "there is no module %s", name)
	}
	data, err := t.read(file)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", name, err)
	}
	info, err := modinfo(data)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", name, err)
	}
	names := map[string]bool{}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		for _, key := range []string{"parm=", "parmtype="} {
			if value, ok := strings.CutPrefix(string(entry), key); ok {
				name, _, _ := strings.Cut(value, ":")
				names[name] = true
			}
		}
	}
	return names, nil
}

// Order returns the names of the modules to load for wanted, each after its
// dependencies, without those built into the kernel. A module that the kernel
// lacks is an error of kind fault.Unsupported.
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
			// A crypto algorithm is named by an alias
			// (crypto-crc32c). The module that every kernel has is
			// named after it (crc32c_generic).
			if d = canonical(d); t.files[d] == "" && !t.builtin[d] {
				d = strings.TrimPrefix(d, "crypto_") + "_generic"
			}
			// Ignore a circular soft dependency.
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
		err = fmt.Errorf("more than %d bytes uncompressed", maxModule)
	}
	return data, err
}

// dependencies reads a module's metadata: the modules that it depends on, and
// those that should be loaded before it ("softdep=pre: a b post: c").
func dependencies(module []byte) (depends, before []string, err error) {
	info, err := modinfo(module)
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

// modinfo returns a module's metadata: entries KEY=VALUE, separated by zeros.
func modinfo(module []byte) ([]byte, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("section .modinfo is missing")
	}
	return section.Data()
}
