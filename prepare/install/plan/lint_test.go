package plan

import (
	"encoding/binary"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"bakeoff/prepare/install/installed"
	"bakeoff/prepare/install/lint"
	"bakeoff/prepare/install/spec"
)

// made is a system as the steps of a plan make it. What packages do is written down here, such as the
// files of a boot loader and the contents of an initial RAM disk.
type made struct {
	installed.System
	*Plan
	spec  *spec.Spec
	files fstest.MapFS
}

// TestPlansPassLint judges the systems that the golden plans make, and those of plans without encryption, without
// hibernation or swap, without EFI variables, and on sectors of 4096 bytes.
func TestPlansPassLint(t *testing.T) {
	for _, name := range []string{"article", "debian12", "debian13", "netbsd", "mirror", "grub"} {
		for bits := range 16 {
			s, facts := golden(t, name)
			if name == "netbsd" && bits > 0 {
				break
			}
			if bits&1 > 0 {
				s.Encryption, s.Secrets.Pool = "off", ""
			}
			if bits&2 > 0 {
				s.Hibernate = false
				if bits&4 > 0 {
					s.Secrets.Swap = ""
				}
			}
			if facts.EFIVars = bits&4 == 0; !facts.EFIVars {
				s.Bootloader.SSHKeys = nil // only an entry starts that image
			}
			if bits&8 > 0 {
				for i := range facts.Disks {
					facts.Disks[i].Logical = 4096
				}
			}
			for _, f := range lint.Check(makes(t, mustPlan(t, s, facts), s, facts)) {
				t.Errorf("%s %04b: %+v", name, bits, f)
			}
		}
	}
	// A plan with a fault is not clean.
	s, facts := golden(t, "article")
	p := mustPlan(t, s, facts)
	p.Step("cmdline").Argv[2] = "org.zfsbootmenu:commandline=ro"
	if found := lint.Check(makes(t, p, s, facts)); len(found) != 2 {
		t.Errorf("a command line without %%{parent} and resume=: %+v", found)
	}
}

// makes returns the facts and the files of the system that a plan makes.
func makes(t *testing.T, p *Plan, s *spec.Spec, facts Target) (installed.System, fs.FS) {
	t.Helper()
	m := made{Plan: p, spec: s, files: fstest.MapFS{}}
	m.System.Schema, m.RAMBytes, m.Hibernation = installed.Schema, facts.RAM, s.Hibernate
	m.install(t, facts)
	return m.System, m.files
}

func (m *made) install(t *testing.T, facts Target) {
	t.Helper()
	m.Modes, m.Packages, m.Datasets = map[string]string{}, map[string]string{}, map[string]installed.Dataset{}
	m.Pools, m.ESPFiles = map[string]installed.Pool{}, map[string]map[string]string{}
	m.Blkid, m.Initramfs = map[string]map[string]string{}, map[string]installed.Initramfs{}
	m.EFI, m.Firmware = &installed.EFI{}, installed.Firmware{Mode: "uefi", EFIVars: &facts.EFIVars, SecureBoot: new(false)}
	m.OS = map[string]installed.OS{"void-zfs": {ID: "void", Version: "rolling", Init: "runit"},
		"netbsd-zfs": {ID: "netbsd", Version: "11.0", Init: "rc"}, "debian-zfs": {ID: "debian", Init: "systemd",
			Version: map[string]string{"bookworm": "12", "trixie": "13"}[m.spec.Release]}}[m.Recipe]
	m.OS.Arch = "x86_64"
	m.Tools = map[string]map[string]string{"": {"zfs": "2.4.1", "dracut": "112"},
		"bookworm": {"zfs": "2.1.11", "dracut": "059", "systemd": "252", "grub": "2.06"},
		"trixie":   {"zfs": "2.3.9", "dracut": "106", "systemd": "257"}}[m.spec.Release]
	for _, d := range m.Drives() {
		m.disk(d)
	}
	if m.OS.Init == "systemd" { // the preset of Debian's packages
		m.Services = []string{"zfs-import-cache.service", "zfs-mount.service", "zfs.target", "zfs-zed.service"}
	}
	for _, s := range m.Steps {
		m.step(s)
	}
	if m.Recipe != "netbsd-zfs" {
		m.start()
	}
}

// disk is a disk with the partitions of the plan.
func (m *made) disk(d Drive) {
	disk := installed.Disk{Name: path.Base(d.Path), ByID: strings.TrimPrefix(d.ByID, "/dev/disk/by-id/"), Size: d.Size,
		Logical: d.Logical, Physical: d.Logical, Partitions: []installed.Partition{}}
	s := m.Step(d.Partition())
	for i, a := range s.Argv {
		if a != "-n" {
			continue
		}
		n, room, _ := strings.Cut(s.Argv[i+1], ":")
		_, kind, _ := strings.Cut(s.Argv[i+3], ":")
		number, _ := strconv.Atoi(n)
		p := installed.Partition{Number: number, Device: d.Path + "p" + n, PartUUID: d.partUUID(n), Start: 2048,
			Type: map[string]string{"ef00": installed.TypeESP}[kind]}
		if _, mib, ok := strings.Cut(strings.TrimSuffix(room, "m"), "+"); ok && kind == "ef00" {
			size, _ := strconv.ParseInt(mib, 10, 64)
			p.Size = size << 20
		}
		disk.Partitions = append(disk.Partitions, p)
		m.Blkid[p.Device] = map[string]map[string]string{partESP: {"TYPE": "vfat", "UUID": d.fatSerial()},
			partSwap: {"TYPE": "crypto_LUKS", "UUID": d.LUKS}, partPool: {"TYPE": "zfs_member", "LABEL": pool},
			partBoot: {"TYPE": "zfs_member", "LABEL": bootPool}}[n]
		if n == partESP {
			m.Mounts = append(m.Mounts, installed.Mount{Source: p.Device, Target: d.esp(), Type: "vfat"})
			m.ESPFiles[p.PartUUID] = map[string]string{}
		}
	}
	m.Disks = append(m.Disks, disk)
}

// step does what a step does.
func (m *made) step(s Step) {
	a := s.Argv
	if len(a) > 2 && a[0] == "chroot" {
		a = a[2:]
	}
	last := a[len(a)-1]
	switch program(a) {
	case "install", "dd":
		m.write(s, last)
	case "chmod":
		m.Modes[strings.TrimPrefix(last, target)] = "0" + a[1]
	case "rm":
		delete(m.files, strings.TrimPrefix(last, target+"/"))
	case "ln":
		m.files[strings.TrimPrefix(strings.TrimPrefix(last, "/altroot"), "/")] = &fstest.MapFile{Data: []byte(a[2]),
			Mode: fs.ModeSymlink}
	case "zpool create", "zpool set", "zfs create", "zfs set":
		m.zfs(a)
	case "apt-get", "xbps-install":
		for _, p := range a[slices.IndexFunc(a, func(w string) bool { return strings.HasSuffix(w, "-y") || w == "-y" })+1:] {
			if !strings.Contains(p, "=") && !strings.HasPrefix(p, "-") {
				m.Packages[p] = "1"
			}
		}
	case "systemctl":
		m.Services = slices.DeleteFunc(m.Services, func(n string) bool { return n == last })
		if slices.Contains(a, "enable") {
			m.Services = append(m.Services, last)
		}
	case "efibootmgr":
		n := strconv.Itoa(1000 + len(m.EFI.Entries))
		i := slices.IndexFunc(m.Drives(), func(d Drive) bool { return d.ByID == a[3] })
		m.EFI.Entries = append(m.EFI.Entries, installed.EFIEntry{Number: n, Active: new(true), Label: a[7], Loader: last,
			PartUUID: m.Drives()[i].ESP})
		m.EFI.Order = append([]string{n}, m.EFI.Order...)
	case "mkswap":
		m.Blkid[last] = map[string]string{"TYPE": "swap"}
		m.Swaps = append(m.Swaps, installed.Swap{Device: last})
	}
}

// program is the name of a program, with the verb of those of ZFS.
func program(a []string) string {
	for a[0] == "env" || strings.Contains(a[0], "=") {
		a = a[1:]
	}
	if a[0] == "zfs" || a[0] == "zpool" {
		return a[0] + " " + a[1]
	}
	return a[0]
}

// write writes a file below the root, or on an ESP.
func (m *made) write(s Step, to string) {
	mode := "0644"
	if i := slices.Index(s.Argv, "-m"); i >= 0 {
		mode = s.Argv[i+1]
	}
	for _, a := range s.Argv { // of dd
		if of, ok := strings.CutPrefix(a, "of="); ok {
			to = of
		}
	}
	for _, boot := range []string{"/mnt/boot/", "/altroot/"} {
		if name, ok := strings.CutPrefix(to, boot); ok && m.Recipe == "netbsd-zfs" && s.Stdin != nil {
			m.files[name] = &fstest.MapFile{Data: []byte(s.Stdin.Text)}
		}
	}
	name, ok := strings.CutPrefix(to, target+"/")
	if !ok || m.Recipe == "netbsd-zfs" {
		return
	}
	if file, ok := strings.CutPrefix(name, "boot/efi/"); ok {
		for id := range m.ESPFiles { // esp-sync copies it
			m.ESPFiles[id][file] = "sha256:1"
		}
		return
	}
	data := []byte("a secret of some length")
	switch {
	case s.Stdin != nil:
		data = []byte(s.Stdin.Text)
	case name == "etc/hostid":
		id, _ := strconv.ParseUint(m.IDs.HostID, 16, 32)
		data = binary.LittleEndian.AppendUint32(nil, uint32(id))
	}
	m.files[name] = &fstest.MapFile{Data: data}
	m.Modes["/"+name] = "0" + strings.TrimPrefix(mode, "0")
}

// zfs makes or changes a pool or a dataset.
func (m *made) zfs(a []string) {
	name := a[len(a)-1]
	if a[1] == "set" {
		property, value, _ := strings.Cut(a[2], "=")
		if a[0] == "zpool" {
			m.Pools[name].Props[property] = value
		} else {
			m.Datasets[name][property] = installed.Property{Value: value, Source: "local"}
		}
		return
	}
	props, set := map[string]string{}, installed.Dataset{}
	if a[0] == "zfs" {
		for k, v := range m.Datasets[installed.Parent(name)] {
			if k == "encryption" || k == "encryptionroot" || k == "keyformat" {
				set[k] = v
			}
		}
		set["canmount"] = installed.Property{Value: "on", Source: "default"}
	}
	for i, w := range a {
		key, value, _ := strings.Cut(a[min(i+1, len(a)-1)], "=")
		switch {
		case w == "-O" || w == "-o" && a[0] == "zfs":
			set[key] = installed.Property{Value: value, Source: "local"}
		case w == "-o":
			props[key] = value
		case w == "-m":
			set["mountpoint"] = installed.Property{Value: a[i+1], Source: "local"}
		}
	}
	if a[0] == "zpool" {
		at := slices.IndexFunc(a[2:], func(w string) bool { return w == pool || w == bootPool || w == "rpool" }) + 2
		name = a[at]
		if set["encryption"].Value != "" {
			set["encryptionroot"] = installed.Property{Value: name}
		}
		props["health"] = "ONLINE"
		m.Pools[name] = installed.Pool{Props: props, Label: installed.Label{HostID: m.IDs.HostID},
			VDevs: slices.DeleteFunc(slices.Clone(a[at+1:]), func(w string) bool { return w == "mirror" })}
	}
	m.Datasets[name] = set
	if mount := set["mountpoint"].Value; a[0] == "zfs" && mount != "none" {
		m.Mounts = append(m.Mounts, installed.Mount{Source: name, Target: mount, Type: "zfs"})
	}
}

// start adds what packages make: kernels, initial RAM disks and the files of loaders.
func (m *made) start() {
	const version = "6.12.5"
	image := "boot/initramfs-" + version + ".img"
	if m.OS.ID == "debian" {
		image = "boot/initrd.img-" + version
	}
	m.Kernels = []installed.Kernel{{Version: version, Image: "boot/vmlinuz-" + version, Initramfs: image,
		ZFSModule: new(true)}}
	i := installed.Initramfs{Mode: "0600", Modules: []string{"base"}, HostID: &m.IDs.HostID, ZFSModule: new(true),
		Files: []string{"/etc/hostid"}}
	for name, f := range m.files {
		if !strings.HasPrefix(name, "etc/dracut.conf.d/") {
			continue
		}
		for line := range strings.Lines(string(f.Data)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), `+=" `)
			words := strings.Fields(strings.TrimSuffix(value, `"`))
			switch key {
			case "add_dracutmodules":
				i.Modules = append(i.Modules, words...)
			case "install_items":
				i.Files = append(i.Files, words...)
			}
		}
	}
	if slices.Contains(i.Files, "/etc/crypttab") {
		text := string(m.files["etc/crypttab"].Data)
		i.Crypttab = &text
	}
	m.Packages["dracut"] = "1"
	for n := range m.Swaps {
		m.Swaps[n].Size = int64(m.spec.SwapGiB)<<30 - 2<<20
		if m.spec.SwapGiB == 0 {
			m.Swaps[n].Size = m.RAMBytes + m.RAMBytes/8
		}
	}
	m.Initramfs[image] = i
	loaders := map[string]string{}
	switch {
	case usesUKI(m.spec):
		m.Bootloader = "systemd-boot"
		loaders = map[string]string{"EFI/systemd/systemd-bootx64.efi": "sha256:2", "EFI/BOOT/BOOTX64.EFI": "sha256:2",
			"EFI/Linux/debian-" + version + ".efi": "sha256:3"}
		m.UKI = []installed.UKI{{Path: "boot/efi/EFI/Linux/debian-" + version + ".efi", Kernel: version, Files: i.Files,
			Cmdline: strings.TrimSpace(string(m.files["etc/kernel/cmdline"].Data))}}
	case usesGRUB(m.spec):
		m.Bootloader = "grub"
		loaders = map[string]string{"EFI/debian/grubx64.efi": "sha256:2", "EFI/BOOT/BOOTX64.EFI": "sha256:2"}
	default:
		m.ZBM = &installed.ZBM{Version: "3.1.0", OpenZFS: "2.4.0"}
		if len(m.spec.Bootloader.SSHKeys) > 0 {
			loaders = map[string]string{"EFI/ZBM-SSH/vmlinuz.EFI": "sha256:4"}
		}
	}
	for id := range m.ESPFiles {
		maps.Copy(m.ESPFiles[id], loaders)
	}
}
