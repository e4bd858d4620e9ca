package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mutant is a patch that applies, with the changes that it makes.
type mutant struct {
	*patch
	changes []*change
}

// functions returns the functions that m changes, each as directory:Receiver.name.
func (m *mutant) functions() (all []string) {
	for _, c := range m.changes {
		for _, key := range c.changed {
			all = append(all, path.Dir(c.was.rel)+":"+key)
		}
	}
	return all
}

// dirs returns the directories of the files that m changes, sorted.
func (m *mutant) dirs() (all []string) {
	for _, c := range m.changes {
		all = append(all, path.Dir(c.was.rel))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// together returns an error if mutants cannot be switched on together.
func together(all []*mutant) error {
	by := make(map[string]string)
	for _, m := range all {
		for _, f := range m.functions() {
			if other, ok := by[f]; ok {
				return fmt.Errorf("%s and %s both change %s: they cannot be switched on together", other, m.name, f)
			}
			by[f] = m.name
		}
	}
	return nil
}

// Names in the woven code.
const (
	switchFile = "zz_mutants.go"
	switchName = "mutant__"
	switchPkg  = "internal/mutant" // relative to the module
	separator  = "__"              // between a function's name and a mutant's
)

// environment is the environment variable that switches mutants on in a woven program.
const environment = "LOCKMESH_MUTANTS"

// weave returns the files of an overlay in which every mutant is compiled beside the correct
// code, keyed by path relative to the module.
//
// For each mutant that changes a function, a copy of the function with that change is added
// at the end of its file, under a name of its own. On the line of its opening brace, the
// original function passes its call on to the copy if that mutant is switched on. So all
// lines keep their numbers.
func weave(root, module string, all []*mutant) (map[string][]byte, error) {
	if err := distinct(all); err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	byFile := make(map[string][]*change)
	switches := make(map[string][]string) // mutants, by directory
	clauses := make(map[string]string)    // package names, by directory
	for _, m := range all {
		for _, c := range m.changes {
			byFile[c.was.rel] = append(byFile[c.was.rel], c)
			clauses[path.Dir(c.was.rel)] = c.was.file.Name.Name
		}
		for _, dir := range m.dirs() {
			switches[dir] = append(switches[dir], m.name)
		}
	}
	for rel, changes := range byFile {
		text, err := weaveFile(filepath.Join(root, filepath.FromSlash(rel)), changes)
		if err != nil {
			return nil, err
		}
		files[rel] = text
	}
	for dir, names := range switches {
		var b bytes.Buffer
		fmt.Fprintf(&b, "package %s\n\nimport %s %q\n\nvar (\n", clauses[dir], switchName, module+"/"+switchPkg)
		for _, name := range names {
			fmt.Fprintf(&b, "%s = %s.On(%q)\n", switchName+name, switchName, name)
		}
		b.WriteString(")\n")
		files[path.Join(dir, switchFile)] = b.Bytes()
	}
	files[switchPkg+"/mutant.go"] = registry(all)
	return files, nil
}

// distinct returns an error if two mutants add the same name to a package.
func distinct(all []*mutant) error {
	owners := make(map[string]string)
	for _, m := range all {
		for _, c := range m.changes {
			for _, name := range c.names() {
				name = path.Dir(c.was.rel) + ":" + name
				if other, ok := owners[name]; ok {
					return fmt.Errorf("%s and %s both add %s: use two names", other, m.name, name)
				}
				owners[name] = m.name
			}
		}
	}
	return nil
}

// names returns the names that a change adds to its package, and the fields as type.name.
func (c *change) names() []string {
	all := slices.Clone(c.added)
	for _, d := range c.declared {
		all = append(all, strings.Split(d.names, ", ")...)
	}
	for typ, fields := range c.fields {
		for _, f := range fields {
			all = append(all, typ+"."+f.name)
		}
	}
	return all
}

// insertion is text to be inserted before the byte at an offset of a file.
type insertion struct {
	at   int
	text string
}

// insert makes insertions in a file. Those at the same offset keep their order.
func insert(file []byte, in []insertion) []byte {
	slices.SortStableFunc(in, func(a, b insertion) int { return cmp.Compare(a.at, b.at) })
	var b bytes.Buffer
	from := 0
	for _, i := range in {
		b.Write(file[from:i.at])
		b.WriteString(i.text)
		from = i.at
	}
	b.Write(file[from:])
	return b.Bytes()
}

// weaveFile returns a file with all its mutants woven in. Stack traces show name as the file
// of their lines.
func weaveFile(name string, changes []*change) ([]byte, error) {
	was := changes[0].was
	var in []insertion
	var tail strings.Builder
	imports := make(map[string]string) // specs, by name
	structs := make(map[string][]string)
	for _, c := range changes {
		for _, i := range c.imports {
			if other, ok := imports[i.name]; ok && other != i.spec {
				return nil, fmt.Errorf("%s: %s is the name of two imports, %s and %s: rename one", was.rel, i.name, other, i.spec)
			} else if !ok {
				imports[i.name] = i.spec
				in = append(in, insertion{was.offset(was.file.Name.End()), "; import " + i.spec})
			}
		}
		for _, typ := range slices.Sorted(maps.Keys(c.fields)) {
			for _, f := range c.fields[typ] {
				structs[typ] = append(structs[typ], f.code)
			}
		}
		for _, key := range c.changed {
			fn := was.funcs[key]
			in = append(in, insertion{was.offset(fn.Body.Lbrace) + 1, dispatch(was, fn, c.mutant)})
			tail.WriteString(c.copied(name, key))
		}
		for _, key := range c.added {
			fn := c.is.funcs[key]
			fmt.Fprintf(&tail, "\n//line %s:%d\n%s\n", name, c.is.line(fn.Pos()), c.is.code(fn.Pos(), fn.End()))
		}
		for _, d := range c.declared {
			fmt.Fprintf(&tail, "\n%s\n", d.code)
		}
	}
	for _, d := range was.declarations() {
		if added := structs[d.names]; len(added) > 0 {
			in = append(in, moreFields(was, d.spec.Type.(*ast.StructType), added))
		}
	}
	return append(insert(was.text, in), tail.String()...), nil
}

// moreFields adds fields to a struct, on the line of its closing brace.
func moreFields(s *source, t *ast.StructType, fields []string) insertion {
	text := strings.Join(fields, "; ")
	if n := len(t.Fields.List); n > 0 && s.line(t.Fields.List[n-1].End()) == s.line(t.Fields.Closing) {
		text = "; " + text
	}
	return insertion{s.offset(t.Fields.Closing), text}
}

// dispatch returns the statement that passes a call of fn on to the mutant's function.
func dispatch(s *source, fn *ast.FuncDecl, mutant string) string {
	var call strings.Builder
	if fn.Recv != nil {
		call.WriteString(fn.Recv.List[0].Names[0].Name + ".")
	}
	call.WriteString(fn.Name.Name + separator + mutant)
	if params := namesOf(fn.Type.TypeParams); len(params) > 0 {
		call.WriteString("[" + strings.Join(params, ", ") + "]")
	}
	call.WriteString("(" + strings.Join(namesOf(fn.Type.Params), ", "))
	if n := fn.Type.Params.NumFields(); n > 0 {
		last := fn.Type.Params.List[len(fn.Type.Params.List)-1]
		if _, variadic := last.Type.(*ast.Ellipsis); variadic {
			call.WriteString("...")
		}
	}
	call.WriteString(")")
	if fn.Type.Results.NumFields() > 0 {
		return fmt.Sprintf(" if %s { return %s }; ", switchName+mutant, call.String())
	}
	return fmt.Sprintf(" if %s { %s; return }; ", switchName+mutant, call.String())
}

func namesOf(list *ast.FieldList) (all []string) {
	if list == nil {
		return nil
	}
	for _, f := range list.List {
		for _, id := range f.Names {
			all = append(all, id.Name)
		}
	}
	return all
}

// copied returns the mutant's function under its own name. Its lines are numbered like the
// original's, up to the first difference and again after the last.
func (c *change) copied(name, key string) string {
	was, is := c.was.funcs[key], c.is.funcs[key]
	old := strings.Split(c.was.code(was.Pos(), was.End()), "\n")
	text := c.is.code(is.Pos(), is.End())
	lines := strings.Split(text, "\n")
	same := 0 // lines at the end that need a line directive
	for same < min(len(old), len(lines))-1 && old[len(old)-1-same] == lines[len(lines)-1-same] {
		same++
	}
	for same > 0 && within(text, len(lines)-same) {
		same--
	}
	if len(lines) == len(old) {
		same = 0
	}
	cut := c.is.offset(is.Name.End()) - c.is.offset(is.Pos())
	lines = strings.Split(text[:cut]+separator+c.mutant+text[cut:], "\n")
	first := c.was.line(was.Pos())
	var b strings.Builder
	fmt.Fprintf(&b, "\n//line %s:%d\n", name, first)
	for i, line := range lines {
		if same > 0 && i == len(lines)-same {
			fmt.Fprintf(&b, "//line %s:%d\n", name, first+len(old)-same)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// within reports whether a line begins inside a token, as lines of raw strings do.
func within(code string, line int) (inside bool) {
	scan(code, func(offset int, tok token.Token, lit string) {
		if tok == token.STRING || tok == token.COMMENT {
			first := strings.Count(code[:offset], "\n")
			inside = inside || first < line && line <= first+strings.Count(lit, "\n")
		}
	})
	return inside
}

// registry returns the file of package mutant in an overlay.
func registry(all []*mutant) []byte {
	var b bytes.Buffer
	b.WriteString(registryHead)
	for _, m := range all {
		fmt.Fprintf(&b, "%q: {", m.name)
		for _, f := range m.functions() {
			b.WriteString(strconv.Quote(f) + ", ")
		}
		b.WriteString("},\n")
	}
	b.WriteString(strings.ReplaceAll(registryTail, "ENVIRONMENT", strconv.Quote(environment)))
	text, err := format.Source(b.Bytes())
	if err != nil {
		panic(err) // names are letters and digits
	}
	return text
}

const registryHead = `package mutant

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// functions maps each mutant to the functions that it changes.
var functions = map[string][]string{
`

// registryTail has ENVIRONMENT in place of the name of the environment variable.
const registryTail = `}

var active = read(os.Getenv(ENVIRONMENT))

// read panics if a named mutant is not compiled in, or if two change the same function.
func read(text string) (names []string) {
	by := make(map[string]string)
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == '+' }) {
		if functions[name] == nil {
			panic(fmt.Sprintf(ENVIRONMENT+": this program was built without the mutant %q", name))
		}
		for _, f := range functions[name] {
			if other, ok := by[f]; ok {
				panic(fmt.Sprintf(ENVIRONMENT+": %s and %s both change %s", other, name, f))
			}
			by[f] = name
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Active returns the names of the mutants that are switched on, sorted.
func Active() []string { return slices.Clone(active) }

// On reports whether a mutant is switched on.
func On(name string) bool { return slices.Contains(active, name) }
`
