//! The dependency graph of the committed transactions, and its cycles by kind.
//!
//! An edge u -> v says that u precedes v in every order that explains what was seen. Edges are ww
//! (v overwrote u), wr (v read u) and rw (v overwrote what u read). A kind of cycle is looked for
//! in the strongly connected components of only the edges that it may have. So a history without
//! that anomaly costs one pass, however many cycles of allowed kinds it has.
//!
//! Edges ww alone make G0. Edges ww and wr make G1c. Snapshot isolation forbids paths of (ww or wr,
//! then at most one rw). Serializability forbids all cycles.
use crate::findings::{Anomaly, Example, Findings};
use crate::history::{History, Item, Seen, What};
use crate::times::Absences;
use crate::versions::Versions;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Ww,
    Wr,
    Rw,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Edge {
    pub from: u32,
    pub to: u32,
    pub kind: Kind,
    pub item: Item,
    /// The reader saw that the row is not there.
    pub missing: bool,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Edge { from, to, item, .. } = self;
        match self.kind {
            Kind::Ww => write!(f, "T{from} -ww-> T{to}: T{to} wrote {item:?} after T{from}"),
            Kind::Wr => write!(f, "T{from} -wr-> T{to}: T{to} saw T{from}'s write of {item:?}"),
            Kind::Rw if self.missing => write!(f, "T{from} -rw-> T{to}: T{from} saw no {item:?}, which T{to} inserted"),
            Kind::Rw => write!(f, "T{from} -rw-> T{to}: T{from} did not see T{to}'s write of {item:?}"),
        }
    }
}

/// Searches that one kind of anomaly may cost; after that its count is a lower bound.
const SEARCHES_MAX: usize = 2000;
/// ... and steps of all of them. A level without snapshots makes one large component of a long
/// history, and a search may then visit every transaction.
const STEPS_MAX: usize = 20_000_000;

/// A kind that has a cycle without two anti-dependencies in a row.
const SNAPSHOT_CYCLES: [Anomaly; 4] = [
    Anomaly::LostUpdate,
    Anomaly::ReadSkew,
    Anomaly::PhantomSkew,
    Anomaly::NonAdjacent,
];

pub struct Graph {
    nodes: usize,
    edges: Vec<Edge>,
    /// Edge numbers by their first transaction.
    out: Vec<Vec<u32>>,
}

impl Graph {
    pub fn new(history: &History, versions: &Versions, absences: &Absences) -> Graph {
        let nodes = history.transactions.len();
        let mut graph = Graph {
            nodes,
            edges: Vec::new(),
            out: Vec::new(),
        };
        let mut edges = HashSet::new();
        for (&item, order) in &versions.order {
            for pair in order.windows(2) {
                let (from, to) = (versions.writer(pair[0]), versions.writer(pair[1]));
                edges.insert(Edge {
                    from,
                    to,
                    kind: Kind::Ww,
                    item,
                    missing: false,
                });
            }
        }
        for (trx, transaction) in versions.committed_ones(history) {
            for (number, op) in transaction.ops.iter().enumerate() {
                let (What::Read(seen), Some(order)) = (&op.what, versions.order.get(&op.item)) else {
                    continue;
                };
                let place = versions.place_seen(op.item, seen).map(|place| (place, place));
                if let Some(places) = place.or_else(|| absences.get(&(trx, number)).copied()) {
                    let missing = *seen == Seen::Nothing;
                    read_edges(versions, trx, op.item, places, missing, order, &mut edges);
                }
            }
        }
        let real =
            |e: &Edge| e.from != e.to && versions.committed[e.from as usize] && versions.committed[e.to as usize];
        graph.edges.extend(edges.into_iter().filter(real));
        graph.edges.sort_by_key(|e| (e.from, e.to, e.kind as u8, e.item));
        graph.out = vec![Vec::new(); nodes];
        for (i, edge) in graph.edges.iter().enumerate() {
            graph.out[edge.from as usize].push(i as u32);
        }
        graph
    }

    pub fn judge(&self, findings: &mut Findings) {
        self.plain_cycles(&[Anomaly::DirtyWrite], &|e| e.kind == Kind::Ww, &|_| true, findings);
        self.plain_cycles(
            &[Anomaly::CircularFlow],
            &|e| e.kind != Kind::Rw,
            &|e| e.kind == Kind::Wr,
            findings,
        );
        self.snapshot_cycles(findings);
        self.plain_cycles(
            &[Anomaly::WriteSkew, Anomaly::Phantom],
            &|_| true,
            &|e| e.kind == Kind::Rw,
            findings,
        );
    }

    fn follow(&self, node: u32) -> impl Iterator<Item = &Edge> {
        self.out[node as usize].iter().map(|i| &self.edges[*i as usize])
    }

    /// Cycles of edges of a kind, each with an edge that `closes` it. Cycles of another search are
    /// left to that search.
    fn plain_cycles(
        &self,
        wanted: &[Anomaly],
        allowed: &dyn Fn(&Edge) -> bool,
        closes: &dyn Fn(&Edge) -> bool,
        findings: &mut Findings,
    ) {
        let pairs = self.edges.iter().filter(|e| allowed(e)).map(|e| (e.from, e.to));
        let component = components(self.nodes, pairs);
        let inside = |e: &Edge| component.get(&e.from).is_some_and(|c| component.get(&e.to) == Some(c));
        let mut seen = HashSet::new();
        let mut searches = Searches::default();
        for closing in self.edges.iter().filter(|e| allowed(e) && closes(e) && inside(e)) {
            if !searches.one_more() {
                findings.at_least.extend(wanted);
                break;
            }
            let path = searches.path(closing.to, closing.from, |node| {
                let edges = self.follow(node).filter(|e| allowed(e) && inside(e));
                edges.map(|e| (e.to, vec![*e])).collect()
            });
            let mut cycle = vec![*closing];
            cycle.extend(path.expect("both are in one component"));
            add(cycle, wanted, findings, &mut seen);
        }
    }

    /// What snapshot isolation forbids.
    fn snapshot_cycles(&self, findings: &mut Findings) {
        let is_rw = |e: &&Edge| e.kind == Kind::Rw;
        let hops = |node: u32| -> Vec<(u32, Vec<Edge>)> {
            let mut hops = Vec::new();
            for first in self.follow(node).filter(|e| e.kind != Kind::Rw) {
                hops.push((first.to, vec![*first]));
                hops.extend(self.follow(first.to).filter(is_rw).map(|e| (e.to, vec![*first, *e])));
            }
            hops
        };
        let pairs = (0..self.nodes as u32).flat_map(|n| hops(n).into_iter().map(move |(to, _)| (n, to)));
        let component = components(self.nodes, pairs);
        let same = |a: u32, b: u32| component.get(&a).is_some_and(|c| component.get(&b) == Some(c));
        let mut seen = HashSet::new();
        let mut searches = Searches::default();
        for from in 0..self.nodes as u32 {
            for first in self.follow(from).filter(|e| e.kind != Kind::Rw) {
                for closing in self.follow(first.to).filter(is_rw).filter(|e| same(from, e.to)) {
                    if !searches.one_more() {
                        findings.at_least.extend(SNAPSHOT_CYCLES);
                        return;
                    }
                    // With one anti-dependency if possible, else with as many as needed.
                    let plain = |node: u32| {
                        let edges = self.follow(node).filter(|e| e.kind != Kind::Rw && same(from, e.to));
                        edges.map(|e| (e.to, vec![*e])).collect()
                    };
                    let any = |node: u32| hops(node).into_iter().filter(|(to, _)| same(from, *to)).collect();
                    let path =
                        (searches.path(closing.to, from, plain)).or_else(|| searches.path(closing.to, from, any));
                    let mut cycle = vec![*first, *closing];
                    cycle.extend(path.expect("both are in one component"));
                    add(cycle, &SNAPSHOT_CYCLES, findings, &mut seen);
                }
            }
        }
    }
}

fn add(mut cycle: Vec<Edge>, wanted: &[Anomaly], findings: &mut Findings, seen: &mut HashSet<Vec<u32>>) {
    let least = (0..cycle.len())
        .min_by_key(|i| cycle[*i].from)
        .expect("a cycle has edges");
    cycle.rotate_left(least);
    let transactions: Vec<u32> = cycle.iter().map(|e| e.from).collect();
    let anomaly = classify(&cycle);
    if wanted.contains(&anomaly) && seen.insert(transactions.clone()) {
        let text = format!("a cycle of {}", transactions.len());
        findings.add(
            anomaly,
            Example {
                transactions,
                edges: cycle,
                text,
            },
        );
    }
}

/// The reader saw one of the states from the first place to the last.
fn read_edges(
    versions: &Versions,
    reader: u32,
    item: Item,
    (first, last): (usize, usize),
    missing: bool,
    order: &[u32],
    edges: &mut HashSet<Edge>,
) {
    let mut own = false;
    if first > 0 {
        let from = versions.writer(order[first - 1]);
        own = from == reader;
        edges.insert(Edge {
            from,
            to: reader,
            kind: Kind::Wr,
            item,
            missing: false,
        });
    }
    if let (Some(next), false) = (order.get(last), own) {
        edges.insert(Edge {
            from: reader,
            to: versions.writer(*next),
            kind: Kind::Rw,
            item,
            missing,
        });
    }
}

/// By what is in the cycle, not by the search that found it.
fn classify(cycle: &[Edge]) -> Anomaly {
    let rw = cycle.iter().filter(|e| e.kind == Kind::Rw).count();
    let after = |i: usize| &cycle[(i + 1) % cycle.len()];
    let adjacent = (0..cycle.len()).any(|i| cycle[i].kind == Kind::Rw && after(i).kind == Kind::Rw);
    let missing = cycle.iter().any(|e| e.missing);
    let one_item = cycle.iter().all(|e| e.item == cycle[0].item);
    match (rw, adjacent) {
        (0, _) if cycle.iter().all(|e| e.kind == Kind::Ww) => Anomaly::DirtyWrite,
        (0, _) => Anomaly::CircularFlow,
        (1, _) if one_item && cycle.iter().any(|e| e.kind == Kind::Ww) => Anomaly::LostUpdate,
        (1, _) if missing => Anomaly::PhantomSkew,
        (1, _) => Anomaly::ReadSkew,
        (_, false) => Anomaly::NonAdjacent,
        (_, true) if missing => Anomaly::Phantom,
        (_, true) => Anomaly::WriteSkew,
    }
}

/// The component of each node that is on a cycle.
fn components(nodes: usize, pairs: impl Iterator<Item = (u32, u32)>) -> HashMap<u32, u32> {
    let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(nodes, 0);
    for _ in 0..nodes {
        graph.add_node(());
    }
    graph.extend_with_edges(pairs.map(|(from, to)| (NodeIndex::new(from as usize), NodeIndex::new(to as usize))));
    let mut component = HashMap::new();
    for (number, members) in kosaraju_scc(&graph).into_iter().enumerate() {
        let is_loop = members.len() == 1 && graph.contains_edge(members[0], members[0]);
        if members.len() > 1 || is_loop {
            component.extend(members.into_iter().map(|node| (node.index() as u32, number as u32)));
        }
    }
    component
}

/// What the search for one kind of anomaly has cost.
#[derive(Default)]
struct Searches {
    number: usize,
    steps: usize,
}

impl Searches {
    /// False: it has cost enough.
    fn one_more(&mut self) -> bool {
        self.number += 1;
        self.number <= SEARCHES_MAX && self.steps <= STEPS_MAX
    }
    /// The shortest path from one node to another; empty if they are the same.
    fn path(&mut self, from: u32, to: u32, hops: impl Fn(u32) -> Vec<(u32, Vec<Edge>)>) -> Option<Vec<Edge>> {
        let mut came: HashMap<u32, (u32, Vec<Edge>)> = HashMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                let mut parts = Vec::new();
                let mut at = to;
                while at != from {
                    let (before, edges) = came.remove(&at).expect("reached");
                    parts.push(edges);
                    at = before;
                }
                return Some(parts.into_iter().rev().flatten().collect());
            }
            for (next, edges) in hops(node) {
                self.steps += 1;
                if next != from && !came.contains_key(&next) {
                    came.insert(next, (node, edges));
                    queue.push_back(next);
                }
            }
        }
        None
    }
}
