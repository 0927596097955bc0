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
	manifests, err := list(ctx, c, address)
	if err != nil {
		return nil, err
	}
	all, damaged := parseList(manifests, address)
	return all, c.Skip(damaged, len(all))
}

// pageSize is the number of images to which a server limits an answer, the oldest ones.
//
// Source: ListImages in docs/index.md of sdc-imgapi.
const pageSize = 1000

// list returns the manifests of all images. A full page can have a next one. That begins with the images published
// when the last one of the page was, so it repeats some.
func list(ctx context.Context, c *source.Client, address string) (all []json.RawMessage, err error) {
	url, seen := source.Join(address, "images"), map[string]bool{}
	for range 2 * source.MaxImages / pageSize {
		b, err := c.Document(ctx, url)
		if err != nil {
			return nil, err
		}
		var page []json.RawMessage
		if err := json.Unmarshal(b, &page); err != nil {
			return nil, source.Damaged("the list of images", "%v", err)
		}
		known, last := len(seen), ""
		for _, text := range page {
			var m struct{ UUID loose }
			json.Unmarshal(text, &m) // parseList reports what is not a manifest
			if id := string(m.UUID); name.ValidUUID(id) {
				if last = id; seen[id] {
					continue
				}
				seen[id] = true
			}
			all = append(all, text)
		}
		if len(all) > source.MaxImages {
			break
		}
		switch {
		case len(page) != pageSize: // the last page, or all images of a server that does not limit its answer
			return all, nil
		case len(seen) == known:
			if c.Warn != nil {
				c.Warn(fmt.Sprintf("the server sent the same %d images again, so it may have more", pageSize))
			}
			return all, nil
		}
		url = source.Join(address, "images?marker="+last)
	}
	return nil, source.Damaged("the list of images", "it has more than %d", source.MaxImages)
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

// parseList reads manifests. It leaves out images that are not active, and returns an error of kind fault.Invalid
// for each manifest that cannot be read.
func parseList(all []json.RawMessage, address string) (out []source.Image, damaged []error) {
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
	return out, damaged
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
