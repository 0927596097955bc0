package probe

import (
	"slices"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/prepare/install/installed"
)

// entryLine is an entry of efibootmgr -v, whose file is \PATH since version 18 and
// File(\PATH) before.
var (
	entryLine = lazy.Compile(`^Boot([0-9A-Fa-f]{4})(\*?) ([^\t]*)(?:\t(.*))?$`)
	entryDisk = lazy.Compile(`HD\([0-9]+,GPT,([0-9a-fA-F-]{36})`)
	entryFile = lazy.Compile(`(?:File\(|/)(\\[^)\x00]*?\.[eE][fF][iI])`)
)

// efi reads the output of efibootmgr -v.
func efi(text string) *installed.EFI {
	e := &installed.EFI{Order: []string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if v, ok := strings.CutPrefix(line, "BootCurrent: "); ok {
			e.Current = v
		} else if v, ok := strings.CutPrefix(line, "BootOrder: "); ok {
			e.Order = strings.Split(v, ",")
		} else if f := entryLine.FindStringSubmatch(line); f != nil {
			n := installed.EFIEntry{Number: strings.ToUpper(f[1]), Active: new(f[2] == "*"), Label: strings.TrimSpace(f[3])}
			if d := entryDisk.FindStringSubmatch(f[4]); d != nil {
				n.PartUUID = strings.ToLower(d[1])
			}
			if d := entryFile.FindStringSubmatch(f[4]); d != nil {
				n.Loader = d[1]
			}
			e.Entries = append(e.Entries, n)
		}
	}
	return e
}

// kernels reads the kernels in /boot and their initial RAM disks.
func (m machine) kernels() ([]installed.Kernel, map[string]installed.Initramfs) {
	names, ok := m.names("/boot")
	if !ok {
		return nil, nil
	}
	kernels, images := []installed.Kernel{}, map[string]installed.Initramfs{}
	for _, n := range names {
		version, ok := strings.CutPrefix(n, "vmlinuz-")
		if !ok || version == "" {
			continue
		}
		k := installed.Kernel{Version: version, Image: "boot/" + n}
		if out, ok := m.output("find", "/lib/modules/"+version, "-name", "zfs.ko*"); ok {
			have := strings.TrimSpace(out) != ""
			k.ZFSModule = &have
			if have {
				k.ZFSModuleVersion, _, _ = strings.Cut(
					strings.TrimSpace(m.run("modinfo", "-k", version, "-F", "version", "zfs")),
					"-",
				)
				k.ZFSModuleKey = m.moduleKey(version)
			}
		}
		for _, i := range []string{"initrd.img-" + version, "initramfs-" + version + ".img"} {
			if slices.Contains(names, i) {
				k.Initramfs = "boot/" + i
				images["boot/"+i] = m.initramfs("/boot/" + i)
			}
		}
		kernels = append(kernels, k)
	}
	return kernels, images
}

// poolCache is the cache of pools.
const poolCache = "/etc/zfs/zpool.cache"

// initramfs reads an initial RAM disk with lsinitrd, or with lsinitramfs.
func (m machine) initramfs(name string) installed.Initramfs {
	var i installed.Initramfs
	if mode := strings.TrimSpace(m.run("stat", "-c", "%a", name)); mode != "" {
		i.Mode = strings.Repeat("0", max(0, 4-len(mode))) + mode
	}
	if out, ok := m.output("lsinitrd", name); ok {
		i.Modules, i.Files = dracutImage(out)
		for _, f := range []struct {
			name string
			to   **string
		}{{"/etc/hostid", &i.HostID}, {"/etc/crypttab", &i.Crypttab}} {
			if !slices.Contains(i.Files, f.name) {
				continue // lsinitrd takes long
			}
			if text, ok := m.output("lsinitrd", "--file", f.name, name); ok {
				if f.name == "/etc/hostid" {
					text = hostID(text)
				}
				*f.to = &text
			}
		}
		if slices.Contains(i.Files, poolCache) {
			if data, ok := m.output("lsinitrd", "--file", poolCache, name); ok {
				i.PoolCache = installed.CacheStrings(data)
			}
		}
	} else if out, ok := m.output("lsinitramfs", name); ok {
		for line := range strings.Lines(out) {
			i.Files = append(i.Files, "/"+strings.TrimPrefix(strings.TrimSpace(line), "/"))
		}
	}
	if i.Files != nil {
		have := slices.ContainsFunc(i.Files, func(f string) bool { return strings.Contains(f, "/zfs.ko") })
		i.ZFSModule = &have
	}
	return i
}

// dracutImage reads the output of lsinitrd: the modules of dracut, and the files.
func dracutImage(text string) (modules, files []string) {
	inModules := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		f := strings.Fields(line)
		switch {
		case line == "dracut modules:":
			inModules = true
		case strings.HasPrefix(line, "==="):
			inModules = false
		case inModules && len(f) == 1:
			modules = append(modules, f[0])
		case len(f) >= 9 && len(f[0]) >= 10 && strings.ContainsRune("-lcbds", rune(f[0][0])):
			files = append(files, "/"+strings.TrimPrefix(f[8], "/"))
		}
	}
	return modules, files
}

// hostID writes the 4 bytes of /etc/hostid, little endian, as 0x01234567.
func hostID(raw string) string {
	if len(raw) != 4 {
		return ""
	}
	const digits = "0123456789abcdef"
	out := "0x"
	for i := 3; i >= 0; i-- {
		out += string(digits[raw[i]>>4]) + string(digits[raw[i]&15])
	}
	return out
}
