package probe

import (
	"bytes"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"bakeoff/prepare/install/installed"
)

// ownerKeys reads the certificates of the machine owner, of which shim gives the system a copy; nil is
// unknown. vars are the names of the variables of the firmware. Where there is none of shim, no such key
// is enrolled.
func (m machine) ownerKeys(vars []string) []installed.Certificate {
	const list = "MokListRT"
	const whole = "/sys/firmware/efi/mok-variables"
	if names, ok := m.names(whole); ok && slices.Contains(names, list) {
		return certificates([]byte(m.file(whole + "/" + list)))
	}
	if len(vars) == 0 {
		return nil
	}
	all := []installed.Certificate{}
	for _, v := range vars { // MokListRT-GUID; shim writes a long list into MokListRT1-GUID and so on, too
		number, _, ok := strings.Cut(strings.TrimPrefix(v, list), "-")
		if !ok || !strings.HasPrefix(v, list) || strings.Trim(number, "0123456789") != "" {
			continue
		}
		const attributes = 4 // bytes before the value
		data := m.file("/sys/firmware/efi/efivars/" + v)
		if len(data) < attributes {
			return nil
		}
		found := certificates([]byte(data[attributes:]))
		if found == nil {
			return nil
		}
		all = append(all, found...)
	}
	return all
}

// certificateList is the type of a signature list whose entries are certificates,
// a5c059a1-94e4-4aa7-87b5-ab155c2bf072. Other lists have digests of programs.
var certificateList = []byte{0xa1, 0x59, 0xc0, 0xa5, 0xe4, 0x94, 0xa7, 0x4a, 0x87, 0xb5, 0xab, 0x15, 0x5c, 0x2b, 0xf0,
	0x72}

// certificates reads signature lists of the firmware (EFI_SIGNATURE_LIST); nil is another format. A list has a
// type, its own size, the sizes of a header and of an entry, the header, and entries. An entry has a
// GUID of its owner and a certificate.
func certificates(data []byte) []installed.Certificate {
	const guid, head = 16, 28 // bytes
	all := []installed.Certificate{}
	for len(data) > 0 {
		if len(data) < head {
			return nil
		}
		size := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(data[at:])) }
		list, header, entry := size(guid), size(guid+4), size(guid+8)
		if list < head+header || list > uint64(len(data)) || entry <= guid || (list-head-header)%entry != 0 {
			return nil
		}
		kind, entries := data[:guid], data[head+header:list]
		data = data[list:]
		if !bytes.Equal(kind, certificateList) {
			continue
		}
		for ; len(entries) > 0; entries = entries[entry:] {
			c, err := x509.ParseCertificate(entries[guid:entry])
			if err != nil {
				return nil
			}
			all = append(all, installed.Certificate{Subject: c.Subject.CommonName, Serial: keyID(c.SerialNumber.Bytes())})
		}
	}
	return all
}

// keyID writes a serial number as modinfo does.
func keyID(serial []byte) string {
	all := make([]string, len(serial))
	for i, b := range serial {
		all[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(all, ":")
}

// moduleKey returns the serial number of the certificate that signed the ZFS module of a kernel, "" if
// nothing did; nil is unknown.
func (m machine) moduleKey(kernel string) *string {
	field := func(name string) (string, bool) {
		out, ok := m.output("modinfo", "-k", kernel, "-F", name, "zfs")
		return strings.TrimSpace(out), ok
	}
	kind, ok := field("sig_id")
	if !ok {
		return nil
	}
	key := ""
	if kind != "" {
		if key, ok = field("sig_key"); !ok || key == "" {
			return nil // a modinfo that cannot read signatures
		}
	}
	return &key
}
