package vm

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"bakeoff/base/lazy"
	"bakeoff/provision/vm/manifest"
)

// maxFrame bounds a line of the metadata protocol, in bytes: a value of a megabyte, encoded
// twice.
const maxFrame = 2 << 20

// metadataStore is what a guest reads and changes by the metadata protocol.
type metadataStore interface {
	guest() manifest.Guest
	// set gives a key of customer_metadata or internal_metadata a value; nil removes it.
	set(key string, value *string) error
}

// serveMetadata answers the requests of a guest until the connection ends.
//
// Source: the Metadata Protocol Specification (Version 2) of SmartOS, and for what it leaves
// open its metadata agent. A frame that is damaged gets no answer: the guest asks again.
func serveMetadata(c io.ReadWriter, store metadataStore) error {
	in := bufio.NewReaderSize(c, 4096)
	for {
		line, err := readFrame(in)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		if answer := answerMetadata(line, store); answer != "" {
			if _, err := io.WriteString(c, answer+"\n"); err != nil {
				return err
			}
		}
	}
}

// readFrame reads a line. One that is too long is skipped, and returned as an empty one.
func readFrame(in *bufio.Reader) (string, error) {
	var line []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxFrame; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return "", err
		case long:
			return "", nil
		default:
			return strings.TrimSuffix(string(line), "\n"), nil
		}
	}
}

// answerMetadata is the answer to a line; "" is none. UEFI and boot loaders use the port as a console,
// too: a line of it gets no answer, which they would read as typed.
func answerMetadata(line string, store metadataStore) string {
	command, rest, _ := strings.Cut(strings.TrimRight(line, "\r"), " ")
	switch {
	case command == "V2":
		f, err := parseFrame(rest)
		if err != nil {
			return ""
		}
		return f.answer(store)
	case command == "NEGOTIATE" && rest == "V2":
		return "V2_OK"
	case command == "NEGOTIATE" && rest != "":
		return "FAILURE"
	case command == "GET" && rest != "": // version 1
		value, ok := lookUp(store.guest(), strings.TrimSpace(rest))
		if !ok {
			return "NOTFOUND"
		}
		lines := strings.Split(value, "\n")
		for i, l := range lines {
			if strings.HasPrefix(l, ".") {
				lines[i] = "." + l
			}
		}
		return "SUCCESS\n" + strings.Join(lines, "\n") + "\n."
	}
	if strings.ContainsFunc(line, unicode.IsControl) { // a console ends lines with CR LF
		return ""
	}
	return "invalid command"
}

// frame is a request of version 2.
type frame struct{ id, code, payload string }

// frameForm is a frame after "V2 ": the length and the checksum of the body, and the body.
var frameForm = lazy.Compile(`^([1-9][0-9]{0,8}) ([0-9a-f]{8}) ` +
	`(([0-9a-f]{8}) ([A-Z]+)(?: ([A-Za-z0-9+/]*={0,2}))?)$`)

// parseFrame reads a request of version 2 without its beginning "V2 ".
func parseFrame(text string) (f frame, err error) {
	m := frameForm.FindStringSubmatch(text)
	if m == nil {
		return f, errors.New("the request does not have the form LENGTH CHECKSUM ID CODE [PAYLOAD]")
	}
	body := m[3]
	if n, err := strconv.Atoi(m[1]); err != nil || n != len(body) {
		return f, fmt.Errorf("the body of the request has %d bytes, but its header says %s", len(body), m[1])
	}
	if sum := fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(body))); sum != m[2] {
		return f, fmt.Errorf("the checksum of the request's body is %s, but its header says %s", sum, m[2])
	}
	payload, err := base64.StdEncoding.DecodeString(m[6])
	if err != nil {
		return f, err
	}
	return frame{m[4], m[5], string(payload)}, nil
}

// String is the frame as it is sent, without the end of the line.
func (f frame) String() string {
	body := f.id + " " + f.code
	if f.payload != "" {
		body += " " + base64.StdEncoding.EncodeToString([]byte(f.payload))
	}
	return fmt.Sprintf("V2 %d %08x %s", len(body), crc32.ChecksumIEEE([]byte(body)), body)
}

func (f frame) answer(store metadataStore) string {
	code, payload := "SUCCESS", ""
	var err error
	switch f.code {
	case "GET":
		var ok bool
		if payload, ok = lookUp(store.guest(), strings.TrimSpace(f.payload)); !ok {
			code = "NOTFOUND"
		}
	case "KEYS":
		for _, key := range metadataKeys(store.guest()) {
			payload += key + "\n"
		}
	case "PUT":
		err = put(store, f.payload)
	case "DELETE":
		key := strings.TrimSpace(f.payload)
		if err = mayWrite(store.guest(), key); err == nil {
			err = store.set(key, nil)
		}
	default:
		err = fmt.Errorf("unknown command %s", f.code)
	}
	if err != nil {
		code, payload = "FAILURE", err.Error()
	}
	return frame{f.id, code, payload}.String()
}

// put sets the key and the value of a request, each of which is in base64.
func put(store metadataStore, payload string) error {
	first, second, ok := strings.Cut(payload, " ")
	key, err := base64.StdEncoding.DecodeString(first)
	value, err2 := base64.StdEncoding.DecodeString(second)
	name := strings.TrimSpace(string(key))
	if !ok || err != nil || err2 != nil {
		return errors.New("a PUT request must contain a key and a value, each in base64")
	}
	if !utf8.Valid(key) || !utf8.Valid(value) || bytes.IndexByte(value, 0) >= 0 {
		return errors.New("keys and values must be text in UTF-8")
	}
	if err := mayWrite(store.guest(), name); err != nil {
		return err
	}
	text := string(value)
	return store.set(name, &text)
}

// mayWrite refuses the keys that a guest only reads.
func mayWrite(g manifest.Guest, key string) error {
	prefix, _, _ := strings.Cut(key, ":")
	if key == "" || strings.ContainsAny(key, "\n\x00") {
		return fmt.Errorf("%q is not a key", key)
	}
	if prefix != key && (prefix == "sdc" || slices.Contains(g.InternalMetadataNamespaces, prefix)) {
		return fmt.Errorf("the guest cannot change the keys of %s", prefix)
	}
	return nil
}

// isInternal tells whether a key belongs to internal_metadata: passwords, and those with the
// prefix of one of its namespaces.
func isInternal(g manifest.Guest, key string) bool {
	prefix, _, named := strings.Cut(key, ":")
	return strings.HasSuffix(key, "_pw") || named && slices.Contains(g.InternalMetadataNamespaces, prefix)
}

// metadataKeys are the names that a guest sees, without those of sdc:.
func metadataKeys(g manifest.Guest) (out []string) {
	for key := range g.CustomerMetadata {
		if !isInternal(g, key) {
			out = append(out, key)
		}
	}
	for key := range g.InternalMetadata {
		if isInternal(g, key) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// lookUp is the value of a key.
func lookUp(g manifest.Guest, key string) (string, bool) {
	if name, ok := strings.CutPrefix(key, "sdc:"); ok {
		return property(g, name)
	}
	from := g.CustomerMetadata
	if isInternal(g, key) {
		from = g.InternalMetadata
	}
	v, ok := from[key]
	return text(v), ok
}

// property is a property of the guest as text; lists and objects are JSON. vendor-data and
// operator-script are in internal_metadata.
func property(g manifest.Guest, name string) (string, bool) {
	switch name {
	case "operator-script", "vendor-data":
		v, ok := g.InternalMetadata[name]
		return text(v), ok
	case "hostname":
		return hostName(g), true
	case "server_uuid":
		id := serverUUID()
		return id, id != ""
	case "routes":
		return routesText(g), true
	case "customer_metadata", "internal_metadata", "tags":
		return "", false // they have keys of their own
	}
	b, err := json.Marshal(g)
	if err != nil {
		return "", false
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return "", false
	}
	raw, ok := all[name]
	if !ok {
		return "", false
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, true
	}
	return string(raw), true
}

// nicIndex is a route by a NIC: nics[0].
var nicIndex = lazy.Compile(`^nics\[([0-9]{1,3})\]$`)

// routesText are the routes as SmartOS's guests read them.
func routesText(g manifest.Guest) string {
	type route struct {
		LinkLocal bool   `json:"linklocal"`
		Dest      string `json:"dst"`
		Gateway   string `json:"gateway"`
	}
	out := []route{}
	for dest, to := range g.Routes {
		r := route{Dest: dest, Gateway: text(to)}
		if m := nicIndex.FindStringSubmatch(r.Gateway); m != nil {
			i, err := strconv.Atoi(m[1])
			if err != nil || i >= len(g.NICs) || len(g.NICs[i].IPs) == 0 || g.NICs[i].IPs[0] == "dhcp" {
				continue
			}
			r.LinkLocal = true
			r.Gateway, _, _ = strings.Cut(g.NICs[i].IPs[0], "/")
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b route) int { return strings.Compare(a.Dest, b.Dest) })
	b, err := json.Marshal(out)
	if err != nil {
		return "[]"
	}
	return string(b)
}
