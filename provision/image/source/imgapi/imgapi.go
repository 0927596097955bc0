// Package imgapi lists the images of an IMGAPI server, which SmartOS and Triton use: it
// answers GET /images, /images/UUID and /images/UUID/file with manifests of version 2.
package imgapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/provision/image/source"
)

// Source is an IMGAPI server.
type Source struct{}

// Doc implements source.Source.
func (Source) Doc() source.Doc {
	return source.Doc{Kind: "imgapi", UUIDs: true,
		Summary: "images of SmartOS; bakeoff imports those whose file is a tar file or the ZFS stream of a volume",
		Address: "a server, such as https://images.smartos.org"}
}

// Check implements source.Source.
func (Source) Check(address string) error { return source.CheckURL(address) }

// Images implements source.Source.
func (Source) Images(ctx context.Context, c *source.Client, address string) ([]source.Image, error) {
	b, err := c.Document(ctx, source.Join(address, "images"))
	if err != nil {
		return nil, err
	}
	all, damaged, err := ParseList(b, address)
	if err == nil {
		err = c.Skip(damaged, len(all))
	}
	return all, err
}

// Image implements source.Finder.
func (Source) Image(ctx context.Context, c *source.Client, address, id string) (source.Image, error) {
	if !name.ValidUUID(id) {
		return source.Image{}, source.Absent(id)
	}
	b, err := c.Document(ctx, source.Join(address, "images/"+id))
	if fault.Is(err, fault.NotFound) {
		return source.Image{}, source.Absent(id)
	}
	if err != nil {
		return source.Image{}, err
	}
	i, err := Parse(b, address)
	if err == nil && i.ID != id {
		err = source.Damaged("the manifest", "it belongs to %s, not to %s", i.ID, id)
	}
	return i, err
}

// manifest is a manifest of version 2; unknown fields are ignored.
type manifest struct {
	UUID        string `json:"uuid"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	State       string `json:"state"`
	Disabled    bool   `json:"disabled"`
	PublishedAt loose  `json:"published_at"`
	Type        string `json:"type"`
	OS          loose  `json:"os"`
	Origin      string `json:"origin"`
	Description loose  `json:"description"`
	Files       []struct {
		SHA1        string `json:"sha1"`
		Size        int64  `json:"size"`
		Compression string `json:"compression"`
	} `json:"files"`
}

// loose is a member that is only shown: a value of another type counts as absent.
type loose string

// UnmarshalJSON implements json.Unmarshaler.
func (l *loose) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*l = loose(text)
	}
	return nil
}

// systems are the names of systems, as Go has them.
var systems = map[string]string{"smartos": "illumos", "linux": "linux", "windows": "windows", "bsd": "freebsd"}

// ParseList reads the answer to GET /images. It leaves out images that are not active,
// and returns an error for each manifest that cannot be read. Errors are of kind
// fault.Invalid.
func ParseList(b []byte, address string) (out []source.Image, damaged []error, err error) {
	var all []json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, nil, source.Damaged("the list of images", "%v", err)
	}
	if len(all) > source.MaxImages {
		return nil, nil, source.Damaged("the list of images", "it has more than %d", source.MaxImages)
	}
	out = []source.Image{}
	for n, text := range all {
		var m manifest
		err := json.Unmarshal(text, &m)
		switch {
		case m.inactive() != "":
			continue
		case err != nil:
			damaged = append(damaged, source.Damaged(m.title(n), "%s", wrongType(err)))
			continue
		}
		i, err := m.image(address)
		if err != nil {
			damaged = append(damaged, err)
			continue
		}
		out = append(out, i)
	}
	return out, damaged, nil
}

// wrongType says which member has a value of another type, without the types of Go.
func wrongType(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fmt.Sprintf("%s is a JSON %s, which is the wrong type", strings.TrimPrefix(wrong.Field, "."), wrong.Value)
	}
	return err.Error()
}

// title names a manifest whose image cannot be read: entry n of the list.
func (m manifest) title(n int) string {
	switch {
	case name.ValidUUID(m.UUID):
		return "the manifest of " + m.UUID
	case m.Name != "":
		return fmt.Sprintf("the manifest of %q", m.Name)
	}
	return fmt.Sprintf("manifest %d of the list of images", n+1)
}

// Parse reads the manifest of an image. Errors are of kind fault.Invalid.
func Parse(b []byte, address string) (source.Image, error) {
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return source.Image{}, source.Damaged("the manifest", "%s", wrongType(err))
	}
	return m.image(address)
}

// inactive says why the server offers the image to nobody; "" if it does.
func (m manifest) inactive() string {
	switch {
	case m.Disabled:
		return "it is disabled"
	case m.State != "" && m.State != "active":
		return "its state is " + m.State
	}
	return ""
}

func (m manifest) image(address string) (source.Image, error) {
	i := source.Image{ID: m.UUID, UUID: m.UUID, Name: m.Name, Version: m.Version, OS: systems[string(m.OS)], Arch: "amd64",
		Type: m.Type, Description: string(m.Description), Origin: m.Origin, Layered: m.Type == "docker"}
	switch {
	case !name.ValidUUID(m.UUID):
		return i, source.Damaged("the manifest", "%q is not a UUID", m.UUID)
	case m.Origin != "" && !name.ValidUUID(m.Origin):
		return i, source.Damaged("the manifest of "+m.UUID, "the origin %q is not a UUID", m.Origin)
	case m.Name == "" || m.Version == "":
		return i, source.Damaged("the manifest of "+m.UUID, "there is no name or no version")
	}
	if t, err := time.Parse(time.RFC3339, string(m.PublishedAt)); err == nil {
		i.Published = t.UTC().Format(time.RFC3339)
	}
	if i.Refused = m.inactive(); i.Refused != "" {
		return i, nil
	}
	switch len(m.Files) {
	case 0:
		i.Refused = "it has no file"
		return i, nil
	case 1:
	default:
		i.Refused = fmt.Sprintf("it has %d files", len(m.Files))
		return i, nil
	}
	f := source.File{Name: m.Name + "-" + m.Version, URL: source.Join(address, "images/"+m.UUID+"/file"),
		Size: m.Files[0].Size, Sum: "sha1:" + strings.ToLower(m.Files[0].SHA1)}
	if f.Size <= 0 || f.Size > source.MaxFile || !source.ValidSum(f.Sum) {
		return i, source.Damaged("the manifest of "+m.UUID, "the size or the SHA-1 of the file is missing or wrong")
	}
	i.Size, i.Files = f.Size, []source.File{f}
	switch m.Type {
	case "zone-dataset", "lx-dataset":
		i.Caveat = source.Unsure
	case "zvol":
		i.Volume = true
	}
	return i, nil
}
