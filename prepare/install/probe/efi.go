package probe

import (
	"bytes"
	"context"
	"debug/pe"
	"encoding/binary"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/prepare/install/installed"
	"bakeoff/reach/conn"
)

// Bounds of what is read of a program of the firmware, in bytes.
const (
	efiHeader  = 8 << 10
	efiSection = 64 << 10
)

// onESP is a file of a mounted EFI system partition: its path there, and in the system.
type onESP struct{ name, path string }

// loaders returns the programs on the mounted EFI system partitions, in order.
func (m machine) loaders(s installed.System) (out []onESP) {
	for _, p := range s.ESPs() {
		for _, at := range s.Mounts {
			if at.Source != p.Device {
				continue
			}
			for name := range s.ESPFiles[p.PartUUID] {
				if strings.HasSuffix(strings.ToLower(name), ".efi") {
					out = append(out, onESP{name, path.Join(at.Target, name)})
				}
			}
			break
		}
	}
	slices.SortFunc(out, func(a, b onESP) int { return strings.Compare(a.path, b.path) })
	return out
}

// menu reads the image of ZFSBootMenu that starts the machine; nil if something else does. rEFInd may start it.
func (m machine) menu(s installed.System) *installed.ZBM {
	if !slices.Contains([]string{"", "zfsbootmenu", "refind"}, s.Bootloader) {
		return nil
	}
	first := -1
	all := m.loaders(s)
	for i, l := range all {
		if installed.LoaderKind(l.name) != "zfsbootmenu" {
			continue
		}
		if s.EFI != nil && slices.ContainsFunc(s.EFI.Entries, func(e installed.EFIEntry) bool {
			return e.Number == s.EFI.Current && strings.EqualFold(strings.TrimPrefix(strings.ReplaceAll(e.Loader, `\`, "/"),
				"/"), l.name)
		}) {
			first = i
			break
		}
		if first < 0 {
			first = i
		}
	}
	if first < 0 {
		if s.Bootloader != "zfsbootmenu" {
			return nil
		}
		return &installed.ZBM{} // on a partition that is not mounted
	}
	file := all[first].path
	z := &installed.ZBM{}
	if _, signed, ok := m.efiImage(file); ok {
		z.Signed = &signed
	}
	if text, ok := m.output("lsinitrd", "--file", "/etc/zbm-release", file); ok {
		z.Version = version.FindString(variables(text)["VERSION"])
	}
	if out, ok := m.output("lsinitrd", file); ok {
		_, files := dracutImage(out)
		for _, f := range files {
			if path.Base(f) == "zfs.ko" {
				z.OpenZFS = m.moduleVersion(file, f)
			}
		}
	}
	return z
}

// unified reads the unified kernel images on the EFI system partitions.
func (m machine) unified(s installed.System) (out []installed.UKI) {
	if s.Bootloader == "zfsbootmenu" {
		return nil
	}
	for _, l := range m.loaders(s) {
		if !strings.EqualFold(path.Dir(l.name), "EFI/Linux") {
			continue
		}
		sections, _, ok := m.efiImage(l.path)
		if _, has := sections[".linux"]; !ok || !has {
			continue
		}
		u := installed.UKI{Path: strings.TrimPrefix(l.path, "/"), Kernel: m.section(l.path, sections[".uname"]),
			Cmdline: m.section(l.path, sections[".cmdline"])}
		if u.Kernel == "" { // TOKEN-VERSION.efi
			_, u.Kernel, _ = strings.Cut(strings.TrimSuffix(path.Base(l.name), path.Ext(l.name)), "-")
		}
		if out, ok := m.output("lsinitrd", l.path); ok {
			_, u.Files = dracutImage(out)
		}
		out = append(out, u)
	}
	return out
}

// room is where a section is in a file, in bytes.
type room struct{ offset, size int64 }

// efiImage reads the header of a program of the firmware: its sections, and whether it has a signature.
func (m machine) efiImage(file string) (sections map[string]room, signed, ok bool) {
	out, ok := m.output("head", "-c", strconv.Itoa(efiHeader), file)
	if !ok {
		return nil, false, false
	}
	return peHeader([]byte(out))
}

func peHeader(data []byte) (sections map[string]room, signed, ok bool) {
	f, err := pe.NewFile(bytes.NewReader(withoutSymbols(data)))
	if err != nil {
		return nil, false, false
	}
	var directories []pe.DataDirectory
	switch h := f.OptionalHeader.(type) {
	case *pe.OptionalHeader64:
		directories = h.DataDirectory[:min(h.NumberOfRvaAndSizes, uint32(len(h.DataDirectory)))]
	case *pe.OptionalHeader32:
		directories = h.DataDirectory[:min(h.NumberOfRvaAndSizes, uint32(len(h.DataDirectory)))]
	default:
		return nil, false, false
	}
	sections = map[string]room{}
	for _, s := range f.Sections {
		size := s.Size
		if s.VirtualSize > 0 {
			size = min(size, s.VirtualSize) // what follows fills the last block
		}
		sections[s.Name] = room{int64(s.Offset), int64(size)}
	}
	const certificates = pe.IMAGE_DIRECTORY_ENTRY_SECURITY
	return sections, len(directories) > certificates && directories[certificates].Size > 0, true
}

// withoutSymbols removes the place of the table of symbols, which objcopy adds at the end of the file.
func withoutSymbols(data []byte) []byte {
	const magic, place, pointer, length = 4, 60, 8, 8 // in bytes
	if len(data) < place+4 {
		return data
	}
	at := int64(binary.LittleEndian.Uint32(data[place:])) + magic + pointer
	if at+length > int64(len(data)) {
		return data
	}
	data = bytes.Clone(data)
	clear(data[at : at+length])
	return data
}

// section reads the text of a section, "" if there is none.
func (m machine) section(file string, at room) string {
	if at.size <= 0 || at.size > efiSection {
		return ""
	}
	out, ok := m.output("dd", "if="+file, "bs=64K", "iflag=skip_bytes,count_bytes", "status=none",
		"skip="+strconv.FormatInt(at.offset, 10), "count="+strconv.FormatInt(at.size, 10))
	if !ok {
		return ""
	}
	return strings.TrimSpace(strings.TrimRight(out, "\x00"))
}

// moduleVersion reads the version of a module of the kernel inside an image. The module must not be
// compressed.
func (m machine) moduleVersion(image, module string) string {
	ctx, stop := context.WithTimeout(m.ctx, programTime)
	defer stop()
	found := &moduleInfo{}
	cmd := conn.Command("lsinitrd", "--file", module, image)
	cmd.Env, cmd.Stdout = []string{"LC_ALL=C"}, found
	if _, err := m.conn.Exec(ctx, cmd); err != nil {
		return ""
	}
	return found.version
}

var moduleField = lazy.Compile(`\x00version=([0-9]+(\.[0-9]+)+)[^\x00]*\x00`)

// moduleInfo finds the version in the bytes of a module, of which it keeps the last ones.
type moduleInfo struct {
	tail    []byte
	version string
}

func (i *moduleInfo) Write(p []byte) (int, error) {
	if i.version != "" {
		return len(p), nil
	}
	i.tail = append(i.tail, p...)
	if f := moduleField.FindSubmatch(i.tail); f != nil {
		i.version, i.tail = string(f[1]), nil
		return len(p), nil
	}
	i.tail = bytes.Clone(i.tail[max(0, len(i.tail)-128):])
	return len(p), nil
}
