package kernel

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	executable "bakeoff/provision/binary"
)

// ELFInfo describes an ELF kernel.
type ELFInfo struct {
	Bits    int    `json:"bits"` // 32 or 64
	Machine string `json:"machine"`
	Entry   uint64 `json:"entry"`
	// PVHEntry is the physical address of the entry for PVH; null without one.
	PVHEntry *uint64 `json:"pvh_entry"`
}

// The notes that kernels have.
//
// Source: Xen public/elfnote.h; NetBSD sys/exec_elf.h; OpenBSD sys/exec_elf.h.
const (
	ownerXen     = "Xen"
	xenGuestOS   = 6
	xenPVHEntry  = 18
	ownerNetBSD  = "NetBSD"
	ownerOpenBSD = "OpenBSD"
	ownerFreeBSD = "FreeBSD"
	ownerLinux   = "Linux"
	noteIdent    = 1
)

// The bounds of the notes that are read.
const (
	maxNotes    = 1 << 20 // bytes of a segment
	maxSegments = 128
)

// note is an ELF note.
type note struct {
	owner string
	kind  uint32
	desc  []byte
}

// readELF reads an ELF kernel. The bytes may be followed by others.
func (i *Info) readELF(image []byte) error {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	defer f.Close()
	e := &ELFInfo{Bits: 32, Machine: strings.TrimPrefix(f.Machine.String(), "EM_"), Entry: f.Entry}
	if f.Class == elf.ELFCLASS64 {
		e.Bits = 64
	}
	i.ELF, i.Arch = e, cmp.Or(executable.Arch(f), e.Machine)
	if f.OSABI == elf.ELFOSABI_FREEBSD {
		i.System = FreeBSD
	}
	if e.PVHEntry = pvhEntry(f); e.PVHEntry != nil {
		i.Boots = append(i.Boots, BootPVH)
	}
	for _, n := range slices.Concat(segmentNotes(f), sectionNotes(f)) {
		i.systemOf(n, f.ByteOrder)
	}
	i.identify(image)
	interpreted := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	// Kernels of FreeBSD name an interpreter, too.
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN || i.System == "" && interpreted {
		return errors.New("the file is a program, a library or a module, not a kernel")
	}
	return nil
}

// Ways lists how a hypervisor can start a kernel, as Info.Boots does, from its headers
// alone: head is its first 64 KiB, and r reads the rest where they point to. bits is 32 or
// 64 for an ELF file, and 0 for others.
func Ways(head []byte, r io.ReaderAt) (boots []string, bits int) {
	var i Info
	i.boots(head)
	if !at(head, 0, elf.ELFMAG) || len(head) <= elf.EI_CLASS {
		return i.Boots, 0
	}
	if bits = 32; elf.Class(head[elf.EI_CLASS]) == elf.ELFCLASS64 {
		bits = 64
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return i.Boots, bits
	}
	defer f.Close()
	if pvhEntry(f) != nil {
		i.Boots = append(i.Boots, BootPVH)
	}
	return i.Boots, bits
}

// pvhEntry returns the entry for PVH in the notes of a file; nil without one.
func pvhEntry(f *elf.File) *uint64 {
	for _, n := range segmentNotes(f) {
		if n.owner == ownerXen && n.kind == xenPVHEntry && (f.Machine == elf.EM_X86_64 || f.Machine == elf.EM_386) {
			if v, ok := address(n.desc, f.ByteOrder); ok {
				return &v
			}
		}
	}
	return nil
}

// address reads an entry, which has 4 bytes or 8.
func address(b []byte, order binary.ByteOrder) (uint64, bool) {
	switch {
	case len(b) >= 8:
		return order.Uint64(b), true
	case len(b) >= 4:
		return uint64(order.Uint32(b)), true
	}
	return 0, false
}

// segmentNotes returns the notes in the segments of a file: the only ones that QEMU
// reads.
func segmentNotes(f *elf.File) (all []note) {
	for _, p := range f.Progs[:min(len(f.Progs), maxSegments)] {
		if p.Type == elf.PT_NOTE && p.Filesz <= maxNotes {
			all = append(all, notes(p.Open(), p.Filesz, p.Align, f.ByteOrder)...)
		}
	}
	return all
}

// sectionNotes returns the notes in the sections of a file.
func sectionNotes(f *elf.File) (all []note) {
	for _, s := range f.Sections[:min(len(f.Sections), maxSegments)] {
		if s.Type == elf.SHT_NOTE && s.FileSize <= maxNotes {
			all = append(all, notes(io.NewSectionReader(s, 0, int64(s.FileSize)), s.FileSize, s.Addralign, f.ByteOrder)...)
		}
	}
	return all
}

// notes reads notes: three words with the sizes of the owner and the description and the
// type, then both, each filled up to align bytes, which is 4 or 8.
func notes(r io.Reader, size, align uint64, order binary.ByteOrder) (all []note) {
	b := make([]byte, size)
	n, _ := io.ReadFull(r, b) // what is missing ends the notes
	b = b[:n]
	if align != 8 {
		align = 4
	}
	up := func(n uint64) uint64 { return (n + align - 1) &^ (align - 1) }
	for len(b) >= 12 {
		owner, desc := uint64(order.Uint32(b)), uint64(order.Uint32(b[4:]))
		from := up(12 + owner)
		if from+desc > uint64(len(b)) {
			break
		}
		all = append(all, note{strings.TrimRight(string(b[12:12+owner]), "\x00"), order.Uint32(b[8:]), b[from : from+desc]})
		b = b[min(up(from+desc), uint64(len(b))):]
	}
	return all
}

// systemOf notes the system that a note names.
func (i *Info) systemOf(n note, order binary.ByteOrder) {
	switch {
	case n.owner == ownerNetBSD && n.kind == noteIdent && len(n.desc) >= 4:
		i.System = NetBSD
		if v := order.Uint32(n.desc); v != 0 {
			i.Version = netbsdVersion(v)
		}
	case n.owner == ownerOpenBSD && n.kind == noteIdent:
		i.System = OpenBSD
	case n.owner == ownerFreeBSD && n.kind == noteIdent:
		i.System = FreeBSD
	case n.owner == ownerLinux && i.System == "":
		i.System = Linux
	case n.owner == ownerXen && n.kind == xenGuestOS && i.System == "":
		name := strings.ToLower(strings.TrimRight(string(n.desc), "\x00"))
		if slices.Contains([]string{Linux, NetBSD, FreeBSD, OpenBSD}, name) {
			i.System = name
		}
	}
}

// netbsdVersion writes a version of NetBSD, MMmmrrpp00, as people do: 10.99.12.
//
// Source: NetBSD sys/param.h.
func netbsdVersion(v uint32) string {
	s := fmt.Sprintf("%d.%d", v/100000000, v/1000000%100)
	if patch := v / 100 % 10000; patch != 0 {
		s += "." + strconv.Itoa(int(patch))
	}
	return s
}

// banners are how kernels introduce themselves. The group is the version.
var banners = []struct {
	system string
	form   *lazy.Regexp
}{
	{Linux, lazy.Compile(`Linux version ([0-9][0-9A-Za-z.+~_-]{0,127}) \(`)},
	{NetBSD, lazy.Compile(`NetBSD ([0-9]+\.[0-9][0-9A-Za-z._-]{0,63}) \(`)},
	{FreeBSD, lazy.Compile(`FreeBSD ([0-9]+\.[0-9]+-[0-9A-Z][0-9A-Za-z.-]{0,63})[ \n]`)},
	{OpenBSD, lazy.Compile(`OpenBSD ([0-9]+\.[0-9][0-9A-Za-z._-]{0,63}) \(`)},
}

// identify finds the banner of a kernel, and what else is in its data.
func (i *Info) identify(image []byte) {
	for _, b := range banners {
		if i.System != "" && i.System != b.system {
			continue
		}
		if m := b.form.FindSubmatchIndex(image); m != nil {
			i.System, i.Version, i.Banner = b.system, string(image[m[2]:m[3]]), line(image[m[0]:])
			break
		}
	}
	i.config = ikconfig(image)
	i.params = bytes.Contains(image, []byte(mmioParameter))
}
