package spec

import (
	"strings"
	"testing"
)

const withDatasets = `schema: bakeoff/install/v1
recipe: void-zfs
disk: /dev/disk/by-id/x
hostname: box
mirror: https://repo.example/current
zfsbootmenu: {file: /zbm.EFI, sha256: 0000000000000000000000000000000000000000000000000000000000000000}
secrets: {pool: prompt, root: prompt}
`

// specOf adds keys to a specification. Without encryption, it has no passphrase.
func specOf(keys string) string {
	text := withDatasets
	if strings.Contains(keys, "encryption: off") {
		text = strings.Replace(text, "pool: prompt, ", "", 1)
	}
	return text + keys
}

// TestDatasets accepts what leaves boot environments whole, and says what does not, and where.
func TestDatasets(t *testing.T) {
	for _, good := range []string{
		"pool: {compression: zstd-3, ashift: 13, autotrim: off, compatibility: openzfs-2.1-linux, properties: {atime: off}}",
		"pool: {properties: {relatime: off, xattr: on, acltype: off, recordsize: 1M, dnodesize: auto}}",
		"encryption: off\npool: {compatibility: grub2, properties: {filesystem_limit: 100}}",
		"datasets: [{name: a, mountpoint: /srv, properties: {exec: off, setuid: off, refquota: 1.5T, checksum: sha512}}]",
		"datasets: [{name: var, mountpoint: none}, {name: var/log, mountpoint: /var/log, properties: {quota: 10G}}]",
		"datasets: [{name: srv, mountpoint: /srv}, {name: local, mountpoint: /usr/local}]",
		"datasets: [{name: home/anna, mountpoint: /home/anna}, {name: docker, mountpoint: /var/lib/docker}]",
		"datasets: [{name: s, mountpoint: /srv, properties: {canmount: on, 'com.sun:auto-snapshot': 'true'}}]",
	} {
		if _, err := Parse("f", []byte(specOf(good)+"\n")); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, c := range [][2]string{
		{"datasets: [{name: ROOT/old, mountpoint: /srv}]",
			"f:8:19: ROOT/old would look like"},
		{"datasets: [{name: var/log, mountpoint: /var/log}]",
			"var/log has no parent; list var before"},
		{"datasets: [{name: home, mountpoint: /srv}]",
			`"home" exists already`},
		{"datasets: [{name: a, mountpoint: /}]",
			"mountpoint is not valid"},
		{"datasets: [{name: a, mountpoint: /usr/lib}]",
			"/usr/lib must be part"},
		{"datasets: [{name: a, mountpoint: /var}]",
			"/var must be part"},
		{"datasets: [{name: a, mountpoint: /var/lib/dpkg/info}]",
			"must be part of the boot environment"},
		{"datasets: [{name: a, mountpoint: /boot/efi}]",
			"must be part of the boot environment"},
		{"datasets: [{name: a, mountpoint: /etc/../srv}]",
			"mountpoint is not valid"},
		{"datasets: [{name: a, mountpoint: /srv}, {name: b, mountpoint: /srv}]",
			"two datasets are mounted at /srv"},
		{"datasets: [{name: a, mountpoint: /srv, properties: {encryption: off}}]",
			`"encryption" cannot be set here`},
		{"datasets: [{name: a, mountpoint: /srv, properties: {'org.zfsbootmenu:x': on}}]",
			"the recipe sets it"},
		{"datasets: [{name: a, mountpoint: /srv, properties: {Quota: 1G}}]",
			"is not the name of a property"},
		{"datasets: [{name: a, mountpoint: /srv, properties: {quota: 1 G}}]",
			"properties.quota is not valid"},
		{"datasets: [{name: a, mountpoint: /srv, properties: {canmount: noauto}}]",
			"canmount is"},
		{"datasets: [{name: a}]",
			"mountpoint is missing"},
		{"pool: {compression: zip}",
			"pool.compression is not valid"},
		{"pool: {ashift: 9}",
			"pool.ashift is 9"},
		{"pool: {autotrim: maybe}",
			"pool.autotrim is"},
		{"pool: {compatibility: none}",
			`does not know the features of "none"`},
		{"pool: {properties: {compression: zstd}}",
			"pool.compression sets it"},
		{"datasets: [{name: a, mountpoint: /srv/x}, {name: a/b, mountpoint: /srv}]",
			"f:8:11: the mountpoint of a dataset is above that of its own parent"},
		{"pool: {compatibility: openzfs-2.1-linxu}",
			`f:8:23: OpenZFS 2.4 of ZFSBootMenu 3.1 does not know the features of "openzfs-2.1-linxu"; did you mean`},
		{"pool: {compatibility: grub2}",
			"f:8:23: the set of features grub2 lacks encryption, which the value of encryption needs"},
		{"pool: {compatibility: zol-0.7}",
			"lacks encryption"},
		{"pool: {compatibility: zol-0.8, compression: zstd-3}",
			"zol-0.8 lacks zstd_compress, which the value of pool.compression needs"},
		{"pool: {compatibility: zol-0.8}\ndatasets: [{name: a, mountpoint: /srv, properties: {compression: zstd}}]",
			"zol-0.8 lacks zstd_compress, which the value of datasets.0.properties.compression needs"},
		{"pool: {compatibility: openzfs-2.1-linux, properties: {checksum: blake3}}",
			"lacks blake3"},
		{"encryption: off\npool: {compatibility: grub2-2.06, properties: {recordsize: 1M}}",
			"lacks large_blocks"},
		{"pool: {compression: zstd-fast-11}",
			"pool.compression is not valid"},
		{"pool: {properties: {exec: off}}",
			"f:8:27: exec=off does not suit the root of a system: no program"},
		{"pool: {properties: {setuid: off, xattr: off, casesensitivity: mixed}}",
			"setuid=off does not suit"},
		{"pool: {properties: {readonly: on}}",
			`"readonly" cannot be set here: the installation could not write to it`},
		{"datasets: [{name: a, mountpoint: /srv, properties: {readonly: on}}]",
			`"readonly" cannot be set here`},
		{"pool: {properties: {volsize: 10G}}",
			`"volsize" cannot be set here: only a volume has it`},
		{"pool: {properties: {jailed: on}}",
			"the system could not mount it"},
		{"pool: {properties: {encryptionx: a}}",
			`f:8:34: "encryptionx" is not a property`},
		{"pool: {properties: {atme: off}}",
			`did you mean "atime"?`},
		{"pool: {properties: {relatime: maybe}}",
			"pool.properties.relatime is not valid; write a value of zfsprops(7)"},
	} {
		bad, want := c[0], c[1]
		_, err := Parse("f", []byte(specOf(bad)+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gave %v, want %q", bad, err, want)
		}
	}
	for _, c := range [][3]string{{"bookworm", "openzfs-2.2-linux", "use openzfs-2.1-linux"},
		{"trixie", "openzfs-2.4", "use openzfs-2.3-linux"}} {
		text := strings.ReplaceAll(withDatasets, "void-zfs", "debian-zfs\nrelease: "+c[0])
		if _, err := Parse("f", []byte(text+"pool: {compatibility: "+c[1]+"}\n")); err == nil ||
			!strings.Contains(err.Error(), c[2]) {
			t.Errorf("features that %s does not know gave %v", c[0], err)
		}
	}
}

// TestMountOrder: a dataset that is mounted later would hide what is mounted below it.
func TestMountOrder(t *testing.T) {
	for _, c := range [][2]string{
		{"{name: app, mountpoint: /srv/app}, {name: srv, mountpoint: /srv}", "srv app"},
		{"{name: b, mountpoint: /srv/a/b}, {name: x, mountpoint: /opt}, {name: a, mountpoint: /srv/a}, " +
			"{name: srv, mountpoint: /srv}", "x srv a b"},
		{"{name: srv-app, mountpoint: /srv-app}, {name: srv, mountpoint: /srv}", "srv-app srv"},
		{"{name: z, mountpoint: none}, {name: z/a, mountpoint: /srv/a}, {name: s, mountpoint: /srv}", "z s z/a"},
	} {
		s, err := Parse("f", []byte(withDatasets+"datasets: ["+c[0]+"]\n"))
		if err != nil {
			t.Errorf("%s: %v", c[0], err)
			continue
		}
		var names []string
		for _, d := range s.Datasets {
			names = append(names, d.Name)
		}
		if got := strings.Join(names, " "); got != c[1] {
			t.Errorf("%s is ordered %s, want %s", c[0], got, c[1])
		}
	}
}
