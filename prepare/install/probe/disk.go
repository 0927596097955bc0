package probe

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/prepare/install/installed"
	"bakeoff/reach/conn"
)

// block is a block device of lsblk --json.
type block struct {
	Name        string   `json:"name"`
	Path        string   `json:"path"`
	Type        string   `json:"type"`
	Size        int64    `json:"size"`
	Logical     int64    `json:"log-sec"`
	Physical    int64    `json:"phy-sec"`
	Rotational  *bool    `json:"rota"`
	DiscardMax  int64    `json:"disc-max"`
	Serial      string   `json:"serial"`
	PartType    string   `json:"parttype"`
	PartUUID    string   `json:"partuuid"`
	PartLabel   string   `json:"partlabel"`
	Start       *int64   `json:"start"` // in units of 512 bytes
	Mountpoints []string `json:"mountpoints"`
	FSType      string   `json:"fstype"`
	UUID        string   `json:"uuid"`
	Label       string   `json:"label"`
	Children    []block  `json:"children"`
}

var lsblkArgs = []string{"lsblk", "--json", "--bytes", "--output", "NAME,PATH,TYPE,SIZE,LOG-SEC,PHY-SEC,ROTA," +
	"DISC-MAX,SERIAL,PARTTYPE,PARTUUID,PARTLABEL,START,MOUNTPOINTS,FSTYPE,UUID,LABEL"}

// blocks reads the output of lsblk --json.
func blocks(text string) []block {
	var out struct {
		Devices []block `json:"blockdevices"`
	}
	if json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return out.Devices
}

// loops reads losetup: by the name of a device the identity of the file behind it.
func loops(text string) map[string]string {
	var out struct {
		Devices []struct {
			Name   string      `json:"name"`
			Device string      `json:"back-maj:min"`
			Inode  json.Number `json:"back-ino"`
		} `json:"loopdevices"`
	}
	all := map[string]string{}
	if json.Unmarshal([]byte(text), &out) != nil {
		return all
	}
	for _, d := range out.Devices {
		if d.Device != "" && d.Inode != "" {
			all[d.Name] = "file-" + strings.TrimSpace(d.Device) + "-" + d.Inode.String()
		}
	}
	return all
}

// disks reads the disks, and what blkid says of everything on them. rootPool is the pool
// that holds the root file system, "" if none does.
func (m machine) disks(
	pools map[string]installed.Pool,
	rootPool string,
) ([]installed.Disk, map[string]map[string]string) {
	out, ok := m.output(lsblkArgs...)
	if !ok {
		return nil, nil
	}
	ids := m.diskIDs()
	files := m.loopFiles()
	disks, blkid := []installed.Disk{}, map[string]map[string]string{}
	for _, b := range blocks(out) {
		if b.Type != "disk" && b.Type != "loop" || b.Size == 0 || b.Path == "" {
			continue
		}
		d := installed.Disk{Name: b.Name, Serial: strings.TrimSpace(b.Serial), Size: b.Size, Logical: b.Logical,
			Physical: b.Physical, Rotational: b.Rotational, Discard: b.DiscardMax > 0}
		if names := ids[b.Path]; len(names) > 0 {
			d.ByID, d.Links = names[0], names[1:]
		}
		if b.Type == "loop" {
			d.Serial = files[b.Path]
		}
		if n := len(b.Name); n > 0 && b.Name[n-1] >= '0' && b.Name[n-1] <= '9' {
			d.Separator = "p"
		}
		d.Partitions = partitions(b)
		note(blkid, b)
		system := slices.ContainsFunc(users(b), func(u string) bool {
			return slices.Contains([]string{"mounted on /", "mounted on /usr", "mounted on /boot"}, u)
		})
		d.Users = m.diskUsers(b, pools)
		system = system || slices.Contains(d.Users, "pool "+rootPool)
		d.System = &system
		d.Signatures = m.signatures(b)
		disks = append(disks, d)
	}
	return disks, blkid
}

// Disk reads one disk, by its path or a link to it. ok says whether it is there.
func Disk(ctx context.Context, c conn.Conn, name string) (d installed.Disk, ok bool, err error) {
	m := machine{ctx, c}
	if m.netbsd() {
		d, ok = m.bsdDisk(strings.TrimPrefix(name, "/dev/"))
		return d, ok, ctx.Err()
	}
	to := strings.TrimSpace(m.run("readlink", "-f", name))
	for _, b := range blocks(m.run(append(slices.Clone(lsblkArgs), to)...)) {
		if b.Path != to {
			continue
		}
		d = installed.Disk{Name: b.Name, Serial: strings.TrimSpace(b.Serial), Size: b.Size, Logical: b.Logical}
		if b.Type == "loop" {
			d.Serial = m.loopFiles()[b.Path]
		}
		pools, _, _ := m.pools()
		d.Users, d.Signatures = m.diskUsers(b, pools), m.signatures(b)
		return d, true, ctx.Err()
	}
	return d, false, ctx.Err()
}

// loopFiles returns the identities of the files behind loop devices.
func (m machine) loopFiles() map[string]string {
	return loops(m.run("losetup", "--json", "--list", "--output", "NAME,BACK-MAJ:MIN,BACK-INO"))
}

// diskIDs returns the names below /dev/disk/by-id, by the path of the disk: first those that name
// the model, rather than a number alone.
func (m machine) diskIDs() map[string][]string {
	names, _ := m.names(strings.TrimSuffix(installed.LinkFolder, "/"))
	slices.SortStableFunc(names, func(a, b string) int { return idRank(a) - idRank(b) })
	all := map[string][]string{}
	for _, n := range names {
		if to := strings.TrimSpace(m.run("readlink", "-f", installed.LinkFolder+n)); to != "" {
			all[to] = append(all[to], n)
		}
	}
	return all
}

// idRank orders names of one disk by how much they say.
func idRank(name string) int {
	for i, p := range []string{"ata-", "nvme-eui.", "wwn-", "nvme-nvme.", "scsi-"} {
		if strings.HasPrefix(name, p) {
			return []int{0, 3, 3, 3, 2}[i]
		}
	}
	return 1
}

// partNumber is the number at the end of a partition's name.
var partNumber = lazy.Compile(`[0-9]{1,3}$`)

func partitions(b block) []installed.Partition {
	all := []installed.Partition{}
	for _, c := range b.Children {
		if c.Type != "part" {
			continue
		}
		p := installed.Partition{Device: c.Path, Type: strings.ToUpper(c.PartType), PartUUID: c.PartUUID, Size: c.Size,
			Label: c.PartLabel}
		for _, digit := range partNumber.FindString(c.Name) {
			p.Number = p.Number*10 + int(digit-'0')
		}
		if c.Start != nil && b.Logical >= 512 {
			p.Start = *c.Start * 512 / b.Logical
		}
		all = append(all, p)
	}
	return all
}

// note adds what a device and its children hold.
func note(blkid map[string]map[string]string, b block) {
	if b.FSType != "" {
		blkid[b.Path] = map[string]string{"TYPE": b.FSType}
		for k, v := range map[string]string{"UUID": b.UUID, "LABEL": b.Label} {
			if v != "" {
				blkid[b.Path][k] = v
			}
		}
	}
	for _, c := range b.Children {
		note(blkid, c)
	}
}

// users says what the kernel uses a disk, its partitions and what is made of them for.
func users(b block) []string {
	all := []string{}
	for _, at := range b.Mountpoints {
		switch at {
		case "":
		case "[SWAP]":
			all = append(all, "swap on "+b.Path)
		default:
			all = append(all, "mounted on "+at)
		}
	}
	for _, c := range b.Children {
		if c.Type != "part" {
			all = append(all, c.Type+" "+c.Name) // lvm, crypt, raid1
		}
		all = append(all, users(c)...)
	}
	return all
}

// diskUsers says what uses a disk; nil is unknown, as are the pools then.
func (m machine) diskUsers(b block, pools map[string]installed.Pool) []string {
	if pools == nil {
		return nil
	}
	return append(users(b), m.poolUsers(b, pools)...)
}

// poolUsers says which pools use a disk or its partitions: those that are imported, and
// those that another machine did not export.
func (m machine) poolUsers(b block, pools map[string]installed.Pool) (all []string) {
	for name, p := range pools {
		for _, v := range p.VDevs {
			if to := strings.TrimSpace(m.run("readlink", "-f", v)); to == b.Path || partOf(b, to) {
				all = append(all, "pool "+name)
			}
		}
	}
	for _, d := range append([]block{b}, b.Children...) {
		if d.FSType != "zfs_member" || len(all) > 0 {
			continue
		}
		l := labelOf(m.run("zdb", "-l", d.Path))
		if l["state"] == "0" {
			all = append(all, "pool "+l["name"]+", which "+orUnknown(l["hostname"])+" has not exported")
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func orUnknown(host string) string {
	if host == "" {
		return "another machine"
	}
	return "the machine " + host
}

func partOf(b block, device string) bool {
	return slices.ContainsFunc(b.Children, func(c block) bool { return c.Path == device })
}

// signatures returns what wipefs and the labels of ZFS show on a disk and its partitions;
// nil is unknown.
func (m machine) signatures(b block) []string {
	all := []string{}
	for _, d := range append([]block{b}, b.Children...) {
		if d.Type != "disk" && d.Type != "loop" && d.Type != "part" {
			continue
		}
		out, ok := m.output("wipefs", "--json", "--output", "TYPE", d.Path)
		found, read := signaturesOf(out)
		if !ok || !read {
			return nil
		}
		all = append(all, found...)
		// wipefs before 2.41 misses labels of ZFS.
		if labelOf(m.run("zdb", "-l", d.Path))["name"] != "" {
			all = append(all, "zfs_member")
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// signaturesOf reads wipefs --json, which prints nothing where there is nothing.
func signaturesOf(text string) (all []string, ok bool) {
	if strings.TrimSpace(text) == "" {
		return nil, true
	}
	var out struct {
		Signatures []struct {
			Type string `json:"type"`
		} `json:"signatures"`
	}
	if json.Unmarshal([]byte(text), &out) != nil {
		return nil, false
	}
	for _, s := range out.Signatures {
		all = append(all, s.Type)
	}
	return all, true
}

// espFiles digests what the mounted EFI system partitions hold.
func (m machine) espFiles(s installed.System) map[string]map[string]string {
	var all map[string]map[string]string
	for _, p := range s.ESPs() {
		for _, at := range s.Mounts {
			if at.Source != p.Device || p.PartUUID == "" {
				continue
			}
			out, ok := m.output("find", at.Target, "-xdev", "-type", "f", "-size", "-512M", "-exec", "sha256sum", "{}", "+")
			if !ok {
				continue
			}
			if all == nil {
				all = map[string]map[string]string{}
			}
			all[p.PartUUID] = digests(out, at.Target)
			break
		}
	}
	return all
}

// digests reads sha256sum of files below a folder.
func digests(text, dir string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		digest, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		name, below := strings.CutPrefix(name, path.Clean(dir)+"/")
		if ok && below && len(digest) == 64 {
			all[name] = "sha256:" + digest
		}
	}
	return all
}
