package probe

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/reach/conn/local"
)

// efiProgram makes a program of the firmware with sections, and a signature of size bytes.
func efiProgram(t testing.TB, signature uint32, sections ...[2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	b.WriteString("MZ")
	b.Write(make([]byte, 58))
	put(uint32(64)) // where the header begins
	b.WriteString("PE\x00\x00")
	h := pe.OptionalHeader64{Magic: 0x20b, NumberOfRvaAndSizes: 16, SectionAlignment: 4096, FileAlignment: 512,
		SizeOfHeaders: 2048, SizeOfImage: 1 << 20, Subsystem: pe.IMAGE_SUBSYSTEM_EFI_APPLICATION}
	h.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_SECURITY] = pe.DataDirectory{VirtualAddress: 4096, Size: signature}
	put(pe.FileHeader{Machine: pe.IMAGE_FILE_MACHINE_AMD64, NumberOfSections: uint16(len(sections)),
		SizeOfOptionalHeader: uint16(binary.Size(h)), Characteristics: pe.IMAGE_FILE_EXECUTABLE_IMAGE})
	put(h)
	const block = 512
	at := uint32(2048)
	for _, s := range sections {
		section := pe.SectionHeader32{VirtualSize: uint32(len(s[1])), PointerToRawData: at,
			SizeOfRawData: uint32(len(s[1])+block-1) / block * block, VirtualAddress: at * 2,
			Characteristics: pe.IMAGE_SCN_CNT_INITIALIZED_DATA | pe.IMAGE_SCN_MEM_READ}
		copy(section.Name[:], s[0])
		put(section)
		at += section.SizeOfRawData
	}
	b.Write(make([]byte, 2048-b.Len()))
	for _, s := range sections {
		b.WriteString(s[1])
		b.Write(make([]byte, (block-len(s[1])%block)%block))
	}
	return b.Bytes()
}

// onTheGuide adds files of the ESP to the recorded machine.
func onTheGuide(names ...string) recorded {
	r := machineOfTheGuide()
	var out strings.Builder
	for _, n := range names {
		fmt.Fprintf(&out, "%s  /boot/efi/%s\n", strings.Repeat("0", 64), n)
	}
	r.commands["find /boot/efi -xdev -type f -size -512M -exec sha256sum {} +"] = out.String()
	return r
}

// TestMenu reads the image of ZFSBootMenu from which the machine started.
func TestMenu(t *testing.T) {
	r := onTheGuide("EFI/ZBM/VMLINUZ-BACKUP.EFI", "EFI/ZBM/VMLINUZ.EFI", "EFI/BOOT/BOOTX64.EFI")
	const file = "/boot/efi/EFI/ZBM/VMLINUZ.EFI"
	module := strings.Repeat("x", 5<<20) + "\x00license=CDDL\x00version=2.4.0-1\x00"
	r.commands["head -c 8192 "+file] = string(efiProgram(t, 0, [2]string{".linux", "kernel"})[:2000])
	r.commands["lsinitrd --file /etc/zbm-release "+file] = "NAME=\"ZFSBootMenu\"\nVERSION=\"3.1.0\"\n"
	r.commands["lsinitrd "+file] = "-rw-r--r--   1 root root 4 Jan  1  1970 usr/lib/modules/6.12/extra/zfs.ko\n"
	r.commands["lsinitrd --file /usr/lib/modules/6.12/extra/zfs.ko "+file] = module
	s, err := Read(t.Context(), r)
	if err != nil || s.ZBM == nil || s.ZBM.Version != "3.1.0" || s.ZBM.OpenZFS != "2.4.0" || s.ZBM.Signed == nil ||
		*s.ZBM.Signed || s.UKI != nil {
		t.Fatalf("%+v, %v", s.ZBM, err)
	}
	r.commands["head -c 8192 "+file] = string(efiProgram(t, 1000)[:2000])
	for _, c := range []string{"lsinitrd " + file, "lsinitrd --file /etc/zbm-release " + file} {
		delete(r.commands, c)
	}
	s, _ = Read(t.Context(), r)
	if s.ZBM == nil || s.ZBM.Version != "" || s.ZBM.OpenZFS != "" || s.ZBM.Signed == nil || !*s.ZBM.Signed {
		t.Errorf("with a signature, and without lsinitrd: %+v", s.ZBM)
	}
	// Another loader started the machine.
	r.commands["efibootmgr -v"] = strings.Replace(r.commands["efibootmgr -v"], `\EFI\ZBM\VMLINUZ.EFI`,
		`\EFI\debian\grubx64.efi`, 1)
	if s, _ = Read(t.Context(), r); s.ZBM != nil || s.Bootloader != "grub" {
		t.Errorf("GRUB, and %+v", s.ZBM)
	}
}

// TestUnified reads unified kernel images.
func TestUnified(t *testing.T) {
	r := onTheGuide("EFI/Linux/debian-6.12.5+deb13-amd64.efi", "EFI/Linux/other.efi",
		"EFI/systemd/systemd-bootx64.efi")
	r.commands["efibootmgr -v"] = "BootCurrent: 0000\nBootOrder: 0000\nBoot0000* Linux Boot Manager\tHD(1,GPT," +
		"b385c262-08bf-3001-ae6e-8346f6b0434e,0x800,0x100000)/\\EFI\\systemd\\systemd-bootx64.efi\n"
	const dir = "/boot/efi/EFI/Linux/"
	image := dir + "debian-6.12.5+deb13-amd64.efi"
	r.commands["head -c 8192 "+image] = string(efiProgram(t, 0, [2]string{".osrel", "ID=debian"},
		[2]string{".cmdline", "root=zfs:a quiet"}, [2]string{".linux", "kernel"})[:2000])
	r.commands["dd if="+image+" bs=64K iflag=skip_bytes,count_bytes status=none skip=2560 count=16"] = "root=zfs:a quiet"
	r.commands["head -c 8192 "+dir+"other.efi"] = string(efiProgram(t, 0, [2]string{".text", "x"})[:2000])
	r.commands["lsinitrd "+image] = "-rw-r--r--   1 root root 4 Jan  1  1970 etc/hostid\n"
	s, err := Read(t.Context(), r)
	if err != nil || s.ZBM != nil || len(s.UKI) != 1 {
		t.Fatalf("%+v, %+v, %v", s.ZBM, s.UKI, err)
	}
	u := s.UKI[0]
	if u.Path != image[1:] || u.Kernel != "6.12.5+deb13-amd64" || u.Cmdline != "root=zfs:a quiet" ||
		len(u.Files) != 1 || u.Files[0] != "/etc/hostid" {
		t.Errorf("%+v", u)
	}
}

// TestSections compares the sections of a program that objcopy made with its own reading.
func TestSections(t *testing.T) {
	if _, err := exec.LookPath("objcopy"); err != nil {
		t.Skip("needs objcopy: apt-get install binutils")
	}
	dir := t.TempDir()
	plain, image, line := filepath.Join(dir, "plain"), filepath.Join(dir, "image"), filepath.Join(dir, "cmdline")
	for name, data := range map[string][]byte{plain: efiProgram(t, 0, [2]string{".text", "x"}),
		line: []byte("root=zfs:zroot/ROOT/debian quiet\n")} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("objcopy", "-I", "pei-x86-64", "-O", "pei-x86-64", "--add-section", ".cmdline="+line,
		"--change-section-vma", ".cmdline=0x30000", plain, image).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m := machine{t.Context(), local.Conn{}}
	sections, signed, ok := m.efiImage(image)
	if got := m.section(image, sections[".cmdline"]); !ok || signed || got != "root=zfs:zroot/ROOT/debian quiet" {
		t.Errorf("%q of %v, %v, %v", got, sections, signed, ok)
	}
}

func FuzzEFI(f *testing.F) {
	f.Add(efiProgram(f, 8, [2]string{".cmdline", "a"}, [2]string{".linux", "b"})[:2000])
	f.Fuzz(func(t *testing.T, data []byte) {
		sections, _, ok := peHeader(data)
		for name, at := range sections {
			if !ok || at.offset < 0 || at.size < 0 {
				t.Errorf("%q at %+v", name, at)
			}
		}
	})
}
