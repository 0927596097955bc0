package kernel

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"bakeoff/base/fault"
)

// kernelOf is the smallest ELF kernel with these notes and this data in it.
type kernelOf struct {
	bits    int
	machine elf.Machine
	osabi   elf.OSABI
	notes   []note
	data    string
}

func (k kernelOf) bytes() []byte {
	le := binary.LittleEndian
	var segment []byte
	for _, n := range k.notes {
		owner := append([]byte(n.owner), 0)
		segment = le.AppendUint32(segment, uint32(len(owner)))
		segment = le.AppendUint32(segment, uint32(len(n.desc)))
		segment = le.AppendUint32(segment, n.kind)
		for _, part := range [][]byte{owner, n.desc} {
			segment = append(segment, part...)
			segment = append(segment, make([]byte, (4-len(part)%4)%4)...)
		}
	}
	head, entry := 64, 56
	if k.bits == 32 {
		head, entry = 52, 32
	}
	b := make([]byte, head+entry)
	copy(b, elf.ELFMAG)
	b[4], b[5], b[6], b[7] = byte(k.bits/32), 1, 1, byte(k.osabi)
	le.PutUint16(b[16:], uint16(elf.ET_EXEC))
	le.PutUint16(b[18:], uint16(k.machine))
	le.PutUint32(b[20:], 1)
	p := b[head:]
	le.PutUint32(p, uint32(elf.PT_NOTE))
	if k.bits == 32 {
		le.PutUint32(b[24:], 0x100000)
		le.PutUint32(b[28:], uint32(head))
		le.PutUint16(b[40:], uint16(head))
		le.PutUint16(b[42:], uint16(entry))
		le.PutUint16(b[44:], 1)
		le.PutUint32(p[4:], uint32(len(b)))
		le.PutUint32(p[16:], uint32(len(segment)))
		le.PutUint32(p[28:], 4)
	} else {
		le.PutUint64(b[24:], 0x1000000)
		le.PutUint64(b[32:], uint64(head))
		le.PutUint16(b[52:], uint16(head))
		le.PutUint16(b[54:], uint16(entry))
		le.PutUint16(b[56:], 1)
		le.PutUint64(p[8:], uint64(len(b)))
		le.PutUint64(p[32:], uint64(len(segment)))
		le.PutUint64(p[48:], 4)
	}
	return append(append(b, segment...), k.data...)
}

// linux is a Linux kernel for PVH.
func linux() []byte {
	return kernelOf{64, elf.EM_X86_64, 0, []note{{ownerXen, xenGuestOS, []byte("linux\x00")},
		{ownerXen, xenPVHEntry, []byte{0x40, 0xd1, 0xa1, 0x02, 0, 0, 0, 0}}},
		"Linux version %s (x)\x00Linux version 6.1.9-test (me@here) #1\n" + strings.Repeat("some code ", 5000)}.bytes()
}

// bzImageOf is a bzImage with a packed kernel of size bytes in it.
func bzImageOf(packed []byte, size int, appended bool) []byte {
	le := binary.LittleEndian
	image := make([]byte, 2048)
	copy(image, "MZ")
	le.PutUint32(image[0x3c:], 0x80)
	copy(image[0x80:], "PE\x00\x00\x64\x86")
	image[setupSectors] = 3
	copy(image[setupMagic:], "HdrS")
	le.PutUint16(image[setupProtocol:], 0x20f)
	le.PutUint16(image[setupVersion:], 0x200)
	copy(image[0x400:], "6.1.9-test (me@here) #1 SMP Debian 6.1.9-1\x00")
	le.PutUint16(image[setupXLoad:], 0x3f)
	le.PutUint32(image[setupCmdline:], 2047)
	if appended {
		packed = le.AppendUint32(slices.Clone(packed), uint32(size))
	}
	le.PutUint32(image[setupPayload+4:], uint32(len(packed)))
	return append(image, packed...)
}

// compressors are those that Linux packs its kernels with (scripts/Makefile.lib).
var compressors = []struct {
	name, pkg string
	argv      []string
}{
	{"gzip", "gzip", []string{"gzip", "-n", "-9"}},
	{"xz", "xz-utils", []string{"xz", "--check=crc32", "--x86", "--lzma2=dict=32MiB"}},
	{"lzma", "xz-utils", []string{"lzma", "-9"}},
	{"bzip2", "bzip2", []string{"bzip2", "-9"}},
	{"lzo", "lzop", []string{"lzop", "-9"}},
	{"lz4", "lz4", []string{"lz4", "-l", "-9"}},
	{"zstd", "zstd", []string{"zstd", "-22", "--ultra"}},
}

func TestEveryCompression(t *testing.T) {
	kernel := linux()
	// Code with calls, which the x86 filter of xz rewrites.
	for i := range 2000 {
		kernel = append(kernel, 0xe8, byte(i), byte(i>>8), 0, 0, 0x90)
	}
	for _, c := range compressors {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.argv[0]); err != nil {
				t.Skipf("needs %s: apt-get install %s", c.argv[0], c.pkg)
			}
			cmd := exec.Command(c.argv[0], c.argv[1:]...)
			cmd.Stdin = bytes.NewReader(kernel)
			packed, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			image := bzImageOf(packed, len(kernel), c.name != "gzip")
			if got, err := Unpack(image); err != nil || !bytes.Equal(got, kernel) {
				t.Fatalf("got %d bytes of %d, %v", len(got), len(kernel), err)
			}
			i, err := Inspect(image)
			if err != nil || i.Packed.Compression != c.name || i.Packed.Error != "" ||
				i.Packed.UnpackedBytes != int64(len(kernel)) || *i.ELF.PVHEntry != 0x2a1d140 {
				t.Errorf("%+v, %+v, %v", i, i.Packed, err)
			}
			if _, err := Unpack(image[:len(image)-8]); err == nil {
				t.Error("half a kernel was taken")
			}
			cut := bzImageOf(packed[:len(packed)/2], len(kernel), true)
			if i, err := Inspect(cut); err != nil || i.Packed.Error == "" || i.Version != "6.1.9-test" {
				t.Errorf("cut: %+v, %v", i, err)
			}
			// The whole file can be compressed, as netbsd.gz is.
			if i, err := Inspect(packed); err != nil || i.Format != ELF || i.Compression != c.name {
				t.Errorf("the file itself: %+v, %v", i, err)
			} else if !slices.ContainsFunc(i.Lacks(), func(l Lack) bool { return l.Name == "unpacked file" }) {
				t.Errorf("the file itself lacks %+v; QEMU does not load it", i.Lacks())
			}
		})
	}
}

// testdata/kernel.lzo was written by lzop 1.04: lzop -9 of 3,000 lines "kernel" with a
// digit. So LZO is tested where lzop is missing.
func TestLzop(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "kernel.lzo"))
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	for i := range 3000 {
		want.WriteString("kernel " + string(rune('0'+i%10)) + "\n")
	}
	if got, err := decompress("lzo", data); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("got %d bytes of %d, %v", len(got), want.Len(), err)
	}
	for _, at := range []int{20, len(data) / 2, len(data) - 6} {
		if got, err := decompress("lzo", data[:at]); err == nil {
			t.Errorf("the first %d bytes gave %d", at, len(got))
		}
	}
	bad := slices.Clone(data)
	bad[len(bad)-30]++
	if _, err := decompress("lzo", bad); err == nil {
		t.Error("a damaged block was taken")
	}
}

func TestInspectELF(t *testing.T) {
	entry := note{ownerXen, xenPVHEntry, []byte{0, 0, 0x20, 0}}
	for name, c := range map[string]struct {
		image  []byte
		system string
		check  func(i Info) bool
	}{
		"Linux": {linux(), Linux, func(i Info) bool {
			return i.Version == "6.1.9-test" && i.Arch == "amd64" && *i.ELF.PVHEntry == 0x2a1d140 && i.ELF.Bits == 64
		}},
		"NetBSD": {kernelOf{64, elf.EM_X86_64, 0, []note{
			{ownerNetBSD, noteIdent, binary.LittleEndian.AppendUint32(nil, 1099001200)},
			{ownerXen, xenGuestOS, []byte("NetBSD\x00")}, entry}, "virtio_mmio.device"}.bytes(),
			NetBSD, func(i Info) bool { return i.Version == "10.99.12" && *i.ELF.PVHEntry == 0x200000 && i.params }},
		"NetBSD for i386, with its banner": {kernelOf{32, elf.EM_386, 0, []note{entry},
			"NetBSD 10.1 (GENERIC) #0: Mon Dec 16 13:08:11 UTC 2024\n\tmkrepro@"}.bytes(),
			NetBSD, func(i Info) bool {
				return i.Version == "10.1" && i.ELF.Bits == 32 && *i.ELF.PVHEntry == 0x200000 &&
					strings.HasPrefix(i.Banner, "NetBSD 10.1 (GENERIC) #0: Mon") && !strings.Contains(i.Banner, "mkrepro")
			}},
		"FreeBSD without PVH": {kernelOf{64, elf.EM_X86_64, elf.ELFOSABI_FREEBSD, nil,
			"FreeBSD 14.1-RELEASE releng/14.1 GENERIC\n"}.bytes(), FreeBSD, func(i Info) bool {
			return i.Version == "14.1-RELEASE" && i.ELF.PVHEntry == nil && !slices.Contains(i.Boots, BootPVH)
		}},
		"OpenBSD": {kernelOf{64, elf.EM_X86_64, 0, []note{{ownerOpenBSD, noteIdent, make([]byte, 4)}},
			"OpenBSD 7.6 (GENERIC.MP) #338"}.bytes(), OpenBSD, func(i Info) bool { return i.Version == "7.6" }},
		"PVH for arm64 is not PVH": {kernelOf{64, elf.EM_AARCH64, 0, []note{entry}, ""}.bytes(), "",
			func(i Info) bool { return i.ELF.PVHEntry == nil && i.Arch == "arm64" }},
	} {
		i, err := Inspect(c.image)
		if err != nil || i.Format != ELF || i.System != c.system || !c.check(i) {
			t.Errorf("%s: %+v, %+v, %v", name, i, i.ELF, err)
		}
	}
}

// marked is a file with a mark at an offset.
func marked(size, offset int, mark string) []byte {
	b := make([]byte, size)
	copy(b[offset:], mark)
	return b
}

// program is an ELF file with an interpreter.
func program() []byte {
	b := kernelOf{64, elf.EM_X86_64, 0, []note{{"GNU", 1, make([]byte, 16)}}, ""}.bytes()
	binary.LittleEndian.PutUint32(b[64:], uint32(elf.PT_INTERP))
	return b
}

func TestInspectOthers(t *testing.T) {
	le := binary.LittleEndian
	m1 := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 0x1badb002), 3), ^uint32(0x1badb002+3)+1)
	m2 := le.AppendUint32(le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 0xe85250d6), 0), 16),
		^uint32(0xe85250d6+16)+1)
	efi := marked(256, 0, "MZ")
	le.PutUint32(efi[0x3c:], 0x80)
	copy(efi[0x80:], "PE\x00\x00\x64\xaa")
	for name, c := range map[string]struct {
		image        []byte
		format, arch string
		boots        []string
	}{
		"arm64":        {marked(256, 0x38, "ARM\x64"), ARM64, "arm64", []string{BootLinux}},
		"RISC-V":       {marked(256, 0x38, "RSC\x05"), RISCV, "riscv64", []string{BootLinux}},
		"EFI":          {efi, EFI, "arm64", []string{BootEFI}},
		"multiboot":    {marked(8192, 4096, string(m1)), Multiboot, "", []string{BootMultiboot}},
		"multiboot2":   {marked(20000, 16384, string(m2)), Multiboot, "", []string{BootMultiboot2}},
		"bzImage, EFI": {bzImageOf(linux(), 0, true), BzImage, "amd64", []string{BootLinux, BootEFI}},
	} {
		i, err := Inspect(c.image)
		if err != nil || i.Format != c.format || i.Arch != c.arch || !slices.Equal(i.Boots, c.boots) {
			t.Errorf("%s: %+v, %v", name, i, err)
		}
	}
	i, err := Inspect(bzImageOf(linux(), 0, true))
	if err != nil || i.BootProtocol != "2.15" || i.CommandLineBytes != 2047 || i.System != Linux ||
		i.Banner != "6.1.9-test (me@here) #1 SMP Debian 6.1.9-1" || !strings.Contains(i.Packed.Error, "unknown compression") {
		t.Errorf("%+v, %+v, %v", i, i.Packed, err)
	}
	for name, bad := range map[string][]byte{"nothing": nil, "a script": []byte("#!/bin/sh\n"),
		"zeros":    make([]byte, 9000),
		"too late": marked(9000, 8192, string(m1)), "cut gzip": []byte("\x1f\x8b\x08"), "cut ELF": linux()[:30],
		"a program": program(), "a module": moduleWith("depends=\x00")} {
		if i, err := Inspect(bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %+v, %v", name, i, err)
		}
	}
}

// A few bytes must not become all memory.
func TestBombs(t *testing.T) {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	zeros := make([]byte, 1<<20)
	for range maxUnpacked>>20 + 1 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	z.Close()
	if _, err := decompress("gzip", b.Bytes()); err == nil || !strings.Contains(err.Error(), "unpacked") {
		t.Errorf("gzip: %v", err)
	}
	large := []byte("\x5d\x00\x00\x00\xf0\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00")
	if _, err := decompress("lzma", large); err == nil {
		t.Error("lzma: a dictionary of 4 GiB was taken")
	}
}

func TestIKConfig(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte("CONFIG_PVH=y\nCONFIG_VIRTIO_MMIO=m\n# CONFIG_ACPI is not set\n"))
	z.Close()
	image := append(linux(), "IKCFG_ST and no gzip IKCFG_ST"+b.String()+"IKCFG_ED"...)
	i, err := Inspect(image)
	if err == nil {
		err = i.Learn(Beside{})
	}
	if err != nil || i.Feature("PVH") != BuiltIn || i.Feature("VIRTIO_MMIO") != Module || i.Feature("ACPI") != Missing ||
		i.Features[0].Source != "IKCONFIG" {
		t.Errorf("%+v, %v", i.Features, err)
	}
}

func TestLearn(t *testing.T) {
	states := func(i Info) string {
		var words []string
		for _, n := range []string{"PVH", "VIRTIO_MMIO", "VIRTIO_MMIO_CMDLINE_DEVICES", "VIRTIO_BLK", "EXT4_FS", "ACPI"} {
			words = append(words, string(i.Feature(n)))
		}
		return strings.Join(words, ", ")
	}
	modules := fstest.MapFS{
		"modules.builtin":                 {Data: []byte("kernel/fs/ext4/ext4.ko\n")},
		"kernel/virtio/virtio_mmio.ko":    {Data: moduleWith("depends=\x00parm=device:x\x00")},
		"kernel/drivers/blk/other_blk.ko": {Data: []byte{}},
	}
	without := fstest.MapFS{"modules.builtin": modules["modules.builtin"],
		"kernel/virtio/virtio_mmio.ko": {Data: moduleWith("depends=\x00")}}
	for name, c := range map[string]struct {
		b    Beside
		want string
		say  int // lacks
	}{
		"nothing": {Beside{}, "built-in, unknown, unknown, unknown, unknown, unknown", 5},
		"modules": {Beside{Modules: modules}, "built-in, module, module, missing, built-in, unknown", 3},
		"modules without command line": {Beside{Modules: without},
			"built-in, module, missing, missing, built-in, unknown", 4},
		"configuration": {Beside{Config: []byte("CONFIG_VIRTIO_MMIO=y\nCONFIG_VIRTIO_MMIO_CMDLINE_DEVICES=y\n" +
			"CONFIG_PVH=y\nCONFIG_EXT4_FS=m\nCONFIG_ACPI=y\n")},
			"built-in, built-in, built-in, missing, module, built-in", 3},
	} {
		i, err := Inspect(linux())
		if err == nil {
			err = i.Learn(c.b)
		}
		if err != nil || states(i) != c.want || len(i.Lacks()) != c.say {
			t.Errorf("%s: %s, %d lacks %+v, %v", name, states(i), len(i.Lacks()), i.Lacks(), err)
		}
		for _, f := range i.Features {
			if (f.State == Unknown) != (f.Source == "") {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
	i, _ := Inspect(linux())
	if err := i.Learn(Beside{Config: []byte("#!/bin/sh\n")}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a script as configuration: %v", err)
	}
}

// moduleWith is a kernel module with a section .modinfo.
func moduleWith(info string) []byte {
	names := "\x00.modinfo\x00.shstrtab\x00"
	le := binary.LittleEndian
	table := (64 + len(info) + len(names) + 7) &^ 7
	b := make([]byte, table+3*64)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], uint16(elf.ET_REL))
	le.PutUint16(b[18:], uint16(elf.EM_X86_64))
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[40:], uint64(table))
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[58:], 64)
	le.PutUint16(b[60:], 3)
	le.PutUint16(b[62:], 2)
	copy(b[64:], info+names)
	for i, s := range [][4]int{{}, {1, int(elf.SHT_PROGBITS), 64, len(info)}, {10, int(elf.SHT_STRTAB), 64 + len(info),
		len(names)}} {
		le.PutUint32(b[table+i*64:], uint32(s[0]))
		le.PutUint32(b[table+i*64+4:], uint32(s[1]))
		le.PutUint64(b[table+i*64+24:], uint64(s[2]))
		le.PutUint64(b[table+i*64+32:], uint64(s[3]))
	}
	return b
}

func TestLacksEntry(t *testing.T) {
	for name, c := range map[string]struct {
		k    kernelOf
		want string
	}{
		"NetBSD of the kind GENERIC without PVH": {kernelOf{64, elf.EM_X86_64, 0,
			[]note{{ownerNetBSD, noteIdent, make([]byte, 4)}}, ""}, "PVH, virtio_mmio.device"},
		"another architecture": {kernelOf{64, elf.EM_AARCH64, 0, nil, "Linux version 6.1 (x)"}, "x86"},
	} {
		i, err := Inspect(c.k.bytes())
		if err == nil {
			err = i.Learn(Beside{})
		}
		var names []string
		for _, l := range i.Lacks() {
			names = append(names, l.Name)
		}
		if err != nil || strings.Join(names, ", ") != c.want {
			t.Errorf("%s: %q, %v", name, names, err)
		}
	}
}

// FuzzInspect gives any bytes: nothing panics, and what is unpacked is an ELF file.
func FuzzInspect(f *testing.F) {
	f.Add(linux()[:700])
	f.Add(bzImageOf([]byte("\x1f\x8b\x08"), 7, true))
	f.Add(bzImageOf([]byte("\xfd7zXZ\x00\x00\x01\x69\x22\xde\x36\x02\x01\x04\x00\x21\x01\x1a"), 7, true))
	f.Add(bzImageOf([]byte("\x5d\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\x00"), 7, true))
	f.Add([]byte("IKCFG_ST\x1f\x8bIKCFG_ED"))
	if data, err := os.ReadFile(filepath.Join("testdata", "kernel.lzo")); err == nil {
		f.Add(data)
		f.Add(bzImageOf(data, 7, true))
	}
	f.Fuzz(func(t *testing.T, image []byte) {
		i, err := Inspect(image)
		if err == nil {
			if i.Format == "" {
				t.Error("a kernel without a format")
			}
			if err := i.Learn(Beside{}); err == nil {
				i.Lacks()
			}
		}
		if out, err := Unpack(image); err == nil && !bytes.HasPrefix(out, []byte(elf.ELFMAG)) {
			t.Error("a file that is not a kernel was unpacked")
		}
	})
}

// FuzzConfig gives any text as configuration.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("CONFIG_PVH=y\n# CONFIG_ACPI is not set\n"))
	f.Add([]byte("CONFIG_"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if all, err := parseConfig(text); err == nil && text != nil && len(all) == 0 {
			t.Error("a configuration without a line")
		}
	})
}
