package vm

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bakeoff/base/atomicfile"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
)

// MetadataIn is the folder in which a container sees its metadata: customer_metadata/KEY,
// internal_metadata/KEY and tags/KEY.
const MetadataIn = "/var/lib/bakeoff/metadata"

// The folders of a guest with its metadata: as files for a container, and as the disk that
// cloud-init reads (data source NoCloud) for a machine.
const (
	dirMetadata = "metadata"
	dirSeed     = "seed"
	seedLabel   = "CIDATA" // by which cloud-init finds the disk
)

// writeMetadata writes the metadata of the guest, and removes that which it has no more.
func (g *Guest) writeMetadata() error {
	if g.Brand.Machine() {
		return g.writeSeed()
	}
	for name, all := range map[string]map[string]any{"customer_metadata": g.CustomerMetadata,
		"internal_metadata": g.InternalMetadata, "tags": g.Tags} {
		dir := g.Path(filepath.Join(dirMetadata, name))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
			return err
		}
		files := map[string][]byte{}
		for key, v := range all {
			files[fileOfKey(key)] = []byte(fmt.Sprint(v))
		}
		if err := writeFolder(dir, files); err != nil {
			return err
		}
	}
	return nil
}

// maxKeyName is the length of the longest name of a file that has all of its key, in bytes. Linux
// permits 255.
const maxKeyName = 200

// fileOfKey is the name of the file of a key: / and a dot at the beginning are escaped as in
// addresses of the web. A name that would be too long is cut, and ends in ~ and 32 digits of the
// SHA-256 of the key.
func fileOfKey(key string) string {
	name := strings.NewReplacer("%", "%25", "/", "%2F", "\x00", "%00").Replace(key)
	if rest, ok := strings.CutPrefix(name, "."); ok {
		name = "%2E" + rest
	}
	if len(name) > maxKeyName {
		sum := sha256.Sum256([]byte(key))
		name = strings.ToValidUTF8(name[:maxKeyName], "") + "~" + hex.EncodeToString(sum[:16])
	}
	return name
}

// writeFolder makes the files of a folder these.
func writeFolder(dir string, files map[string][]byte) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, ok := files[e.Name()]; !ok {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	for name, text := range files {
		err = errors.Join(err, atomicfile.Write(filepath.Join(dir, name), text, 0o644))
	}
	return err
}

// RootKeys is the key of customer_metadata with the public keys that log in as root and as the
// usual user of an image, one in a line.
const RootKeys = "root_authorized_keys"

// hasSeed tells whether the guest gets a disk for cloud-init.
func hasSeed(g manifest.Guest) bool {
	return g.Brand.Machine() && g.Brand != manifest.MicroVM &&
		len(g.CustomerMetadata)+len(g.NICs)+len(g.Hostname)+len(g.Resolvers) > 0
}

// writeSeed writes the files of cloud-init's data source NoCloud.
func (g *Guest) writeSeed() error {
	if !hasSeed(g.Guest) {
		return nil
	}
	if err := os.MkdirAll(g.Path(dirSeed), 0o700); err != nil {
		return err
	}
	files, err := seedFiles(g.Guest)
	if err != nil {
		return err
	}
	return writeFolder(g.Path(dirSeed), files)
}

// seedFiles are the files of the data source NoCloud. JSON is YAML, too.
//
// Source: cloud-init's documentation of NoCloud and of network configuration, version 2.
func seedFiles(g manifest.Guest) (map[string][]byte, error) {
	name := hostName(g)
	user := map[string]any{}
	meta := map[string]any{"instance-id": g.UUID, "local-hostname": name}
	// A guest whose network has no name server knows its own name: sudo asks for it.
	vendor := map[string]any{"manage_etc_hosts": "localhost"}
	if keys := text(g.CustomerMetadata[RootKeys]); keys != "" {
		list := slices.DeleteFunc(strings.Split(keys, "\n"), func(s string) bool { return strings.TrimSpace(s) == "" })
		user["disable_root"] = false
		user["users"] = []any{"default", map[string]any{"name": "root", "ssh_authorized_keys": list}}
		// User data of the manifest replaces ours, and these stay.
		meta["public-keys"], vendor["disable_root"] = list, false
	}
	values := map[string]any{"meta-data": meta, "network-config": networkConfig(g)}
	out := map[string][]byte{}
	for file, v := range values {
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return nil, err
		}
		out[file] = append(b, '\n')
	}
	for file, v := range map[string]any{"user-data": user, "vendor-data": vendor} {
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return nil, err
		}
		out[file] = append([]byte("#cloud-config\n"), append(b, '\n')...)
	}
	for _, file := range []string{"user-data", "vendor-data", "network-config"} {
		for _, key := range []string{file, "cloud-init:" + file} { // the second one counts
			if t := text(g.CustomerMetadata[key]); t != "" && (key != "network-config" && key != "vendor-data") {
				out[file] = []byte(t)
			}
		}
	}
	return out, nil
}

// hostName is the name of the guest in its network. An alias may be any text.
func hostName(g manifest.Guest) string {
	if g.Hostname == "" && nameForm.MatchString(g.Alias) {
		return g.Alias
	}
	return cmp.Or(g.Hostname, g.UUID)
}

func text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func networkConfig(g manifest.Guest) map[string]any {
	cards := map[string]any{}
	for i, n := range g.NICs {
		card := map[string]any{"match": map[string]any{"macaddress": n.MAC}}
		card["dhcp4"] = wantsAddress(n)
		addresses := slices.DeleteFunc(slices.Clone(n.IPs), func(ip string) bool { return ip == "dhcp" || ip == "addrconf" })
		if len(addresses) > 0 {
			card["addresses"] = addresses
		}
		if slices.Contains(n.IPs, "addrconf") {
			card["accept-ra"] = true
		}
		if n.MTU != 0 {
			card["mtu"] = n.MTU
		}
		if n.Primary && len(n.Gateways) > 0 {
			card["routes"] = []any{map[string]any{"to": "0.0.0.0/0", "via": n.Gateways[0]}}
		}
		if n.Primary && len(g.Resolvers) > 0 {
			card["nameservers"] = map[string]any{"addresses": g.Resolvers}
		}
		cards[fmt.Sprint("net", i)] = card
	}
	if len(cards) == 0 {
		// The card of its published ports. By its name, only netplan would find it.
		cards["net0"] = map[string]any{"match": map[string]any{"macaddress": qemu.CardMAC}, "dhcp4": true}
	}
	return map[string]any{"version": 2, "ethernets": cards}
}
