// Package binary reads from a program what it needs to start: its system and processor,
// its interpreter and its shared libraries.
package binary

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"slices"
	"strings"
)

// Program is a file that an operating system can execute, or a shared library. The
// zero Program is any other file.
type Program struct {
	// System is linux, freebsd, netbsd, openbsd, solaris, darwin or windows; "" is a
	// script, or a file that is not a program.
	System string
	// Arch is a GOARCH; "" is another processor, or a script.
	Arch string
	// Interpreter is the program that loads it: the dynamic loader, or what a script
	// names in its first line. "" is a static program, or a library.
	Interpreter string
	Script      bool
	// Needed are the names of its shared libraries, Search the folders in which it
	// looks for them first, as they are written ($ORIGIN is not replaced).
	Needed, Search []string
}

// Bounds on what is read of a file: it may be anything.
const (
	maxLine    = 256
	maxNeeded  = 1024
	maxSection = 1 << 20
)

// Read reads the first bytes and the tables of a file. A file that is not a program has no
// error. A damaged program has one.
func Read(r io.ReaderAt) (Program, error) {
	head := make([]byte, maxLine)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Program{}, err
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		line, _, _ := bytes.Cut(head[2:], []byte("\n"))
		words := strings.Fields(string(line))
		if len(words) == 0 {
			return Program{}, nil
		}
		return Program{Script: true, Interpreter: words[0]}, nil
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return readELF(r)
	case bytes.HasPrefix(head, []byte("MZ")) && n > 64:
		return Program{System: "windows"}, nil
	case hasAnyPrefix(head, "\xcf\xfa\xed\xfe", "\xce\xfa\xed\xfe", "\xfe\xed\xfa\xcf", "\xfe\xed\xfa\xce"):
		return Program{System: "darwin"}, nil
	}
	return Program{}, nil
}

func hasAnyPrefix(b []byte, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return bytes.HasPrefix(b, []byte(p)) })
}

var systems = map[elf.OSABI]string{elf.ELFOSABI_FREEBSD: "freebsd", elf.ELFOSABI_NETBSD: "netbsd",
	elf.ELFOSABI_OPENBSD: "openbsd", elf.ELFOSABI_SOLARIS: "solaris"}

func readELF(r io.ReaderAt) (p Program, err error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return Program{}, err
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return Program{}, nil // an object file, or a core
	}
	if p.System = systems[f.OSABI]; p.System == "" {
		p.System = "linux" // Linux programs carry the value of System V, too
	}
	p.Arch = Arch(f)
	for _, s := range f.Progs {
		if s.Type != elf.PT_INTERP || s.Filesz > maxLine {
			continue
		}
		text := make([]byte, s.Filesz)
		if _, err := s.ReadAt(text, 0); err != nil {
			return Program{}, err
		}
		text, _, _ = bytes.Cut(text, []byte{0})
		p.Interpreter = string(text)
	}
	if d := f.SectionByType(elf.SHT_DYNAMIC); d == nil || d.Size > maxSection ||
		int(d.Link) >= len(f.Sections) || f.Sections[d.Link].Size > maxSection {
		return p, nil // static, or without section headers: the libraries are not known
	}
	if p.Needed, err = f.DynString(elf.DT_NEEDED); err != nil {
		return Program{}, err
	}
	p.Needed = p.Needed[:min(len(p.Needed), maxNeeded)]
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		paths, err := f.DynString(tag)
		if err != nil {
			return Program{}, err
		}
		for _, all := range paths[:min(len(paths), maxNeeded)] {
			p.Search = append(p.Search, strings.Split(all, ":")...)
		}
	}
	return p, nil
}

// Arch is the GOARCH of a file; "" is another processor.
func Arch(f *elf.File) string {
	little := f.Data == elf.ELFDATA2LSB
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_386:
		return "386"
	case elf.EM_AARCH64:
		return "arm64"
	case elf.EM_ARM:
		return "arm"
	case elf.EM_S390:
		return "s390x"
	case elf.EM_RISCV:
		return "riscv64"
	case elf.EM_PPC64:
		if little {
			return "ppc64le"
		}
		return "ppc64"
	}
	return ""
}
