package spec

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// keyFault says why the SSH server would not accept a line of authorized_keys, and what to write instead; "" is no
// fault. Source: sshd(8), AUTHORIZED_KEYS FILE FORMAT.
func keyFault(line string) (why, fix string) {
	const write = "write a public key such as ssh-ed25519 AAAA… name"
	if !sshKey.MatchString(line) {
		if _, key, ok := strings.Cut(line, " "); ok && sshOptions.MatchString(key) {
			return "has options before the key, which bakeoff does not support",
				"write the key alone, and add the options in the new system"
		}
		return "is not valid", write
	}
	fields := strings.Fields(line)
	kind := fields[0]
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	switch {
	case kind == "ssh-dss":
		return "is a DSA key (ssh-dss), which OpenSSH does not accept", "write a key of another type, such as ssh-ed25519"
	case strings.Contains(kind, "-cert-v"):
		return "is a certificate, not a public key", write
	case err != nil:
		return "is not whole: its base64 text is damaged or cut off", "copy the whole line of the file NAME.pub"
	case len(blob) < 4 || uint64(binary.BigEndian.Uint32(blob)) >= uint64(len(blob)-4):
		return "is not whole: its data ends too early", "copy the whole line of the file NAME.pub"
	}
	if in := string(blob[4 : 4+binary.BigEndian.Uint32(blob)]); in != kind {
		return "is not valid: it begins with " + kind + ", but its data is of another type", "copy the whole line of the " +
			"file NAME.pub"
	}
	return "", ""
}

// keys checks public keys of SSH.
func (c checker) keys(all []string, at ...string) {
	for i, k := range all {
		keys := append(slices.Clone(at), strconv.Itoa(i))
		if why, fix := keyFault(k); k == "" {
			c.want(k, sshKey, fix, keys...)
		} else if why != "" { // the key is not shown: it may be a secret in the wrong place
			c.Add(c.at(keys), fix, "%s %s", strings.Join(keys, "."), why)
		}
	}
}
