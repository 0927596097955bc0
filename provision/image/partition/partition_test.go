package partition

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/gpt"
)

const sector = 512

// extAt puts the superblock of an ext4 file system of n KiB at an offset.
func extAt(disk []byte, offset, kib int) {
	super := disk[offset+1024:]
	binary.LittleEndian.PutUint32(super[4:], uint32(kib))
	copy(super[56:], "\x53\xef")
}

// mbr puts an entry into the table of a disk.
func mbr(disk []byte, i int, kind byte, first, count uint32) {
	e := disk[446+16*i:]
	e[4] = kind
	binary.LittleEndian.PutUint32(e[8:], first)
	binary.LittleEndian.PutUint32(e[12:], count)
	copy(disk[510:], "\x55\xaa")
}

// logical puts an extended partition at a sector into the table of a disk, with one partition that
// begins one sector later.
func logical(disk []byte, first uint32, kind byte, count uint32) {
	mbr(disk, 1, 0x05, first, 48)
	mbr(disk[first*sector:], 0, kind, 1, count)
}

// entry is a partition of a GPT.
type entry struct {
	kind        string
	first, last uint64
	attributes  uint64
}

// withGPT makes a table in sectors of some size.
func withGPT(disk []byte, size int, parts ...entry) {
	mbr(disk, 0, protected, 1, 100)
	le := binary.LittleEndian
	table := disk[2*size:][:8*128]
	for i, p := range parts {
		b, err := hex.DecodeString(strings.ReplaceAll(p.kind, "-", ""))
		if err != nil {
			panic(err)
		}
		for _, r := range [][2]int{{0, 4}, {4, 6}, {6, 8}} {
			for k := r[0]; k < r[1]; k++ {
				table[128*i+k] = b[r[1]-1-(k-r[0])]
			}
		}
		copy(table[128*i+8:], b[8:])
		le.PutUint64(table[128*i+32:], p.first)
		le.PutUint64(table[128*i+40:], p.last)
		le.PutUint64(table[128*i+48:], p.attributes)
	}
	h := disk[size:][:92]
	copy(h, "EFI PART")
	le.PutUint32(h[12:], 92)
	le.PutUint64(h[72:], 2)
	le.PutUint32(h[80:], 8)
	le.PutUint32(h[84:], 128)
	le.PutUint32(h[88:], crc32.ChecksumIEEE(table))
	le.PutUint32(h[16:], crc32.ChecksumIEEE(h))
}

const (
	esp       = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
	netBSDFFS = "49f48d5a-b10e-11dc-b99b-0019d1879648"
	luks      = "ca7d7ccb-63ed-4c53-861c-1742536059cc"
	size      = 64 << 10
	ofFFS     = "the root of the disk contains FFS, but guests of bakeoff mount only ext4; boot it " +
		"as the disk of the driver " +
		"qemu, with its own kernel unless it has a boot loader: kernel: FILE, disk: FILE"
)

func TestRoot(t *testing.T) {
	amd64 := roots["amd64"]
	for name, c := range map[string]struct {
		make func(disk []byte)
		want Range
		says string
	}{
		"the whole disk": {func(d []byte) { extAt(d, 0, 64) }, Range{0, size}, ""},
		"the only Linux partition of an MBR": {func(d []byte) {
			mbr(d, 0, 0x0c, 1, 15)
			mbr(d, 2, linuxMBR, 16, 32)
			extAt(d, 16*sector, 16)
		}, Range{16 * sector, 32 * sector}, ""},
		"the root of a GPT": {func(d []byte) {
			withGPT(d, sector, entry{esp, 20, 23, 0}, entry{linuxData, 24, 31, 0}, entry{amd64, 32, 63, 0})
			extAt(d, 32*sector, 16)
		}, Range{32 * sector, 32 * sector}, ""},
		"the only Linux partition of a GPT with large sectors": {func(d []byte) {
			withGPT(d, 4096, entry{esp, 4, 4, 0}, entry{linuxData, 5, 8, 0})
			extAt(d, 5*4096, 16)
		}, Range{5 * 4096, 4 * 4096}, ""},
		"the type of a root before BOOTME": {func(d []byte) {
			withGPT(d, sector, entry{linuxData, 20, 23, gpt.BootMe}, entry{amd64, 32, 63, 0})
			extAt(d, 32*sector, 16)
		}, Range{32 * sector, 32 * sector}, ""},
		"BOOTME of two roots": {func(d []byte) {
			withGPT(d, sector, entry{amd64, 20, 23, 0}, entry{amd64, 32, 63, gpt.BootMe})
			extAt(d, 32*sector, 16)
		}, Range{32 * sector, 32 * sector}, ""},
		"BOOTME beside LUKS": {func(d []byte) {
			withGPT(d, sector, entry{luks, 20, 23, 0}, entry{linuxData, 32, 63, gpt.BootMe})
			extAt(d, 32*sector, 16)
		}, Range{32 * sector, 32 * sector}, ""},
		"BOOTONCE before BOOTME": {func(d []byte) {
			withGPT(d, sector, entry{amd64, 20, 23, gpt.BootMe}, entry{linuxData, 32, 63, gpt.BootOnce})
			extAt(d, 32*sector, 16)
		}, Range{32 * sector, 32 * sector}, ""},
		"BOOTFAILED is left out": {func(d []byte) {
			withGPT(d, sector, entry{linuxData, 20, 23, gpt.BootMe | gpt.BootFailed}, entry{linuxData, 32, 63, gpt.BootMe})
			extAt(d, 32*sector, 16)
		}, Range{32 * sector, 32 * sector}, ""},
		"two Linux partitions": {func(d []byte) {
			withGPT(d, sector, entry{linuxData, 20, 23, 0}, entry{linuxData, 24, 31, 0})
		}, Range{}, "2 partitions that can be the root: 1, 2; give the root the attribute 59"},
		"the root of another architecture": {func(d []byte) {
			withGPT(d, sector, entry{linuxData, 20, 23, 0}, entry{roots["arm64"], 24, 31, gpt.BootMe})
		}, Range{}, "can be in partition 2, which has the type Linux root (arm64), not that of a root for amd64; if"},
		"/boot and ext4 in a partition of another type": {func(d []byte) {
			withGPT(d, sector, entry{linuxData, 20, 23, 0}, entry{windowsData, 32, 63, 0})
			extAt(d, 32*sector, 16)
		}, Range{}, "2 partitions that can be the root: 1, 2"},
		"LUKS in a partition of an unknown type": {func(d []byte) {
			withGPT(d, sector, entry{linuxData, 20, 23, 0}, entry{netBSDFFS[:35] + "9", 32, 63, 0})
			copy(d[32*sector:], "LUKS\xba\xbe")
		}, Range{}, "can be in partition 2, which contains LUKS, and"},
		"/boot, /home and ESP": {func(d []byte) {
			withGPT(d, sector, entry{esp, 20, 23, 0}, entry{"bc13c2ff-59e6-4262-a352-b275fd6f7172", 24, 27, 0},
				entry{"933ac7e1-2eb4-4f13-b844-0e14e2aef915", 28, 31, 0}, entry{linuxData, 32, 63, 0})
			for _, at := range []int{20, 24, 28} {
				extAt(d, at*sector, 2)
			}
			extAt(d, 32*sector, 16)
		}, Range{32 * sector, 32 * sector}, ""},
		"ext4 in an MBR, in a partition of another type": {func(d []byte) {
			mbr(d, 0, 0x07, 16, 32)
			extAt(d, 16*sector, 16)
		}, Range{16 * sector, 32 * sector}, ""},
		"a damaged header": {func(d []byte) {
			withGPT(d, sector, entry{amd64, 20, 23, 0})
			d[sector+40]++
		}, Range{}, "the checksum of the GPT header is wrong"},
		"damaged entries": {func(d []byte) {
			withGPT(d, sector, entry{amd64, 20, 23, 0})
			d[2*sector+40]++
		}, Range{}, "the checksum of the GPT entries is wrong"},
		"no header": {func(d []byte) { mbr(d, 0, protected, 1, 100) }, Range{}, "the header of the GPT is missing"},
		"beyond the disk": {func(d []byte) { mbr(d, 0, linuxMBR, 16, 1000) }, Range{},
			"partition 1 does not lie within the disk"},
		"beyond the GPT": {func(d []byte) { withGPT(d, sector, entry{amd64, 20, 1 << 60, 0}) }, Range{},
			"partition 1 does not lie"},
		"xfs": {func(d []byte) { copy(d, "XFSB") }, Range{}, "contains xfs, but guests of " +
			"bakeoff mount only ext4; mount it"},
		"LVM in a partition": {func(d []byte) { mbr(d, 0, linuxMBR, 16, 16); copy(d[17*sector:], "LABELONE") }, Range{},
			"contains LVM"},
		"a logical partition beside /boot": {func(d []byte) {
			mbr(d, 0, linuxMBR, 4, 4)
			extAt(d, 4*sector, 2)
			logical(d, 16, linuxMBR, 8)
		}, Range{}, "2 partitions that can be the root: 1, 5"},
		"the only logical partition": {func(d []byte) {
			logical(d, 16, 0x82, 8)
			logical(d[8*sector:], 16, linuxMBR, 32)
			mbr(d[16*sector:], 1, 0x05, 8, 40)
			extAt(d, 25*sector, 16)
		}, Range{25 * sector, 32 * sector}, ""},
		"a list of logical partitions without an end": {func(d []byte) {
			logical(d, 16, 0x82, 8)
			mbr(d[16*sector:], 1, 0x05, 0, 40)
		}, Range{}, "the list of logical partitions in partition 2 is damaged"},
		"a list that ends": {func(d []byte) { mbr(d, 1, 0x0f, 16, 40) }, Range{},
			"the list of logical partitions in partition 2 is damaged"},
		"LVM beside /boot": {func(d []byte) {
			mbr(d, 0, linuxMBR, 16, 32)
			mbr(d, 1, 0x8e, 48, 32)
			extAt(d, 16*sector, 16)
		}, Range{}, "can be in partition 2, which contains LVM"},
		"ZFS beside /boot": {func(d []byte) {
			mbr(d, 0, linuxMBR, 16, 32)
			mbr(d, 1, 0xbf, 48, 32)
			extAt(d, 16*sector, 16)
		}, Range{}, "can be in partition 2, which contains ZFS by its type, and bakeoff does not read that; copy"},
		"ZFS beside /boot in a GPT": {func(d []byte) {
			withGPT(d, sector, entry{linuxData, 20, 31, 0}, entry{"6a85cf4d-1dd2-11b2-99a6-080020736631", 32, 63, 0})
			extAt(d, 20*sector, 4)
		}, Range{}, "can be in partition 2, which contains ZFS by its type"},
		"LUKS beside /boot in a GPT": {func(d []byte) {
			withGPT(d, sector, entry{linuxData, 20, 31, 0}, entry{luks, 32, 63, 0})
			extAt(d, 20*sector, 4)
		}, Range{}, "can be in partition 2, which contains LUKS"},
		"the type of a root beside LVM": {func(d []byte) {
			withGPT(d, sector, entry{amd64, 32, 63, 0}, entry{"e6d6d379-f507-44c2-a23c-238f2a3df928", 20, 31, 0})
			extAt(d, 32*sector, 16)
		}, Range{32 * sector, 32 * sector}, ""},
		"nothing": {func([]byte) {}, Range{}, "neither a partition table nor a file system"},
		"cut":     {func(d []byte) { extAt(d, 0, 65) }, Range{}, "larger than the disk or partition"},
	} {
		disk := make([]byte, size)
		c.make(disk)
		got, err := Root(bytes.NewReader(disk), size, "amd64")
		if c.says == "" && (err != nil || got != c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
		if c.says != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestDescribe(t *testing.T) {
	one, two, five := 1, 2, 5
	for name, c := range map[string]struct {
		make func(disk []byte)
		want Table
	}{
		"GPT": {func(d []byte) {
			withGPT(d, sector, entry{esp, 20, 23, 1}, entry{linuxData, 32, 63, gpt.BootMe})
			extAt(d, 32*sector, 16)
		}, Table{Kind: "GPT", Boot: &two, Root: &two, Entries: []Entry{
			{Number: 1, Type: esp, TypeName: "EFI system", Offset: 20 * sector, Size: 4 * sector,
				Attributes: []string{"required"}},
			{Number: 2, Type: linuxData, TypeName: "Linux data", Offset: 32 * sector, Size: 32 * sector,
				Attributes: []string{"bootme"}, FileSystem: ext}}}},
		"MBR": {func(d []byte) { mbr(d, 0, 0xa9, 16, 16); d[446] = 0x80 }, Table{Kind: "MBR",
			RootError: "the disk has no Linux partition; copy the file system of the root into a file of its own " +
				"and name that file",
			Entries: []Entry{{Number: 1, Type: "0xa9", Offset: 16 * sector, Size: 16 * sector,
				Attributes: []string{"active"}}}}},
		"MBR with a logical partition": {func(d []byte) {
			logical(d, 16, linuxMBR, 32)
			extAt(d, 17*sector, 16)
		}, Table{Kind: "MBR", Root: &five, Entries: []Entry{
			{Number: 2, Type: "0x05", Offset: 16 * sector, Size: 48 * sector, Attributes: []string{}},
			{Number: 5, Type: "0x83", Offset: 17 * sector, Size: 32 * sector, Attributes: []string{}, FileSystem: ext}}}},
		"NetBSD": {func(d []byte) {
			withGPT(d, sector, entry{netBSDFFS, 32, 63, gpt.BootMe})
			copy(d[32*sector+8192+1372:], "\x54\x19\x01\x00")
		}, Table{Kind: "GPT", Boot: &one, RootError: ofFFS, Entries: []Entry{{Number: 1, Type: netBSDFFS,
			TypeName: "NetBSD FFS", Offset: 32 * sector, Size: 32 * sector, Attributes: []string{"bootme"},
			FileSystem: "FFS"}}}},
		"FFS without a partition": {func(d []byte) { copy(d[8192+1372:], "\x54\x19\x01\x00") }, Table{FileSystem: "FFS",
			RootError: ofFFS, Entries: []Entry{}}},
		"the whole disk": {func(d []byte) { extAt(d, 0, 64) },
			Table{FileSystem: ext, Root: new(int), Entries: []Entry{}}},
	} {
		disk := make([]byte, size)
		c.make(disk)
		got, err := Describe(bytes.NewReader(disk), size, "amd64")
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := Describe(bytes.NewReader(make([]byte, size)), size, "amd64"); !fault.Is(err, fault.NotFound) {
		t.Errorf("zeros: %v", err)
	}
}

func header(change func(h []byte)) []byte {
	h := make([]byte, 104)
	copy(h, "QFI\xfb\x00\x00\x00\x03")
	change(h)
	return h
}

func TestQCOW2(t *testing.T) {
	for name, c := range map[string]struct {
		head []byte
		is   bool
		says string
	}{
		"raw":          {make([]byte, 104), false, ""},
		"short":        {[]byte("QFI"), false, ""},
		"qcow2":        {header(func([]byte) {}), true, ""},
		"cut":          {header(func([]byte) {})[:20], true, "ends within its header"},
		"version 1":    {header(func(h []byte) { h[7] = 1 }), true, "version 1"},
		"backing file": {header(func(h []byte) { h[15] = 104 }), true, "has a backing file; make one file of both"},
		"data file":    {header(func(h []byte) { h[79] = 4 }), true, "data in another file"},
		"encrypted":    {header(func(h []byte) { h[35] = 1 }), true, "encrypted"},
		"large":        {header(func(h []byte) { h[24] = 1 }), true, "describes a disk"},
	} {
		is, err := QCOW2(c.head)
		if is != c.is || (c.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v, want %v, %q", name, is, err, c.is, c.says)
		}
	}
}

// FuzzRoot gives any bytes: a root lies on its disk.
func FuzzRoot(f *testing.F) {
	add := func(change func([]byte)) {
		disk := make([]byte, 32<<10)
		change(disk)
		f.Add(disk)
	}
	add(func(d []byte) { extAt(d, 0, 32) })
	add(func(d []byte) { mbr(d, 1, linuxMBR, 16, 32); extAt(d, 16*sector, 16) })
	add(func(d []byte) { withGPT(d, sector, entry{roots["amd64"], 20, 51, 0}); extAt(d, 20*sector, 16) })
	add(func(d []byte) { logical(d, 4, linuxMBR, 32); extAt(d, 5*sector, 16) })
	f.Add(header(func([]byte) {}))
	f.Fuzz(func(t *testing.T, disk []byte) {
		r, err := Root(bytes.NewReader(disk), int64(len(disk)), "amd64")
		if err == nil && (r.Offset < 0 || r.Size <= 0 || r.Offset+r.Size > int64(len(disk))) {
			t.Errorf("%v of %d bytes", r, len(disk))
		}
		if d, err := Describe(bytes.NewReader(disk), int64(len(disk)), "amd64"); err == nil && d.Kind+d.FileSystem == "" {
			t.Error("a disk without anything was described")
		}
		if is, err := QCOW2(disk); err != nil && !is {
			t.Errorf("no qcow2 file, but %v", err)
		}
	})
}
