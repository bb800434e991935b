//! Graphs that were captured, and launching them.
//!
//! A node keeps its arguments by value, as they were when it was captured. Launches of one executable graph run one after
//! another, on whichever streams. Not here: graphs that are built node by node.
#![allow(unsafe_code)]

use super::capture::Node;
use super::ffi::{In, Out};
use super::operation::Operation;
use super::queue::Mark;
use super::state::Driver;
use super::stream::stream_of;
use super::{Call, invalid, lock, with_context};
use std::sync::{Arc, Mutex};

pub(super) struct Graph {
    pub(super) handle: usize,
    nodes: Arc<[Node]>,
}

impl Graph {
    pub(super) fn new(handle: usize, nodes: Vec<Node>) -> Graph {
        Graph { handle, nodes: nodes.into() }
    }
}

pub(super) struct Exec {
    handle: usize,
    nodes: Arc<[Node]>,
    /// Where its last launch ends.
    last: Mutex<Option<Mark>>,
}

fn instantiate(out: Out<usize>, graph: usize) -> u32 {
    with_context(|_| {
        let driver = Driver::get()?;
        out.wanted()?;
        let nodes = Arc::clone(&driver.graphs.get(graph)?.nodes);
        out.set(driver.execs.insert(|handle| Exec { handle, nodes, last: Mutex::default() }).handle)
    })
}

/// Flags that free memory or launch from the device change nothing for captured graphs.
#[unsafe(no_mangle)]
extern "C" fn cuGraphInstantiateWithFlags(out: Out<usize>, graph: usize, flags: u64) -> u32 {
    if flags > 15 {
        return super::anytime(|| Err(invalid("a flag of the graph does not exist")));
    }
    instantiate(out, graph)
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphInstantiate_v2(
    out: Out<usize>,
    graph: usize,
    error_node: Out<usize>,
    log: Out<u8>,
    log_byte_len: usize,
) -> u32 {
    error_node.set_if_asked(0);
    if log_byte_len > 0 {
        log.set_if_asked(0);
    }
    instantiate(out, graph)
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(exec: usize, stream: usize) -> u32 {
    with_context(|context| {
        let driver = Driver::get()?;
        let exec = driver.execs.get(exec)?;
        let stream = stream_of(context, stream)?;
        let mut joined = lock(&stream.capture);
        if let Some(joined) = &mut *joined {
            let effects = Arc::default();
            return joined.push(Operation::Graph { nodes: Arc::clone(&exec.nodes), effects });
        }
        let effects =
            exec.nodes.iter().map(|node| driver.effect_on(&node.operation)).collect::<Call<Arc<[_]>>>()?;
        let operation = Operation::Graph { nodes: Arc::clone(&exec.nodes), effects };
        let mut last = lock(&exec.last);
        let after = last.take().into_iter().collect();
        *last = Some(stream.submit(operation, after, None));
        Ok(())
    })
}

/// What is under way keeps what it needs.
#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(exec: usize) -> u32 {
    with_context(|_| Driver::get()?.execs.remove(exec).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(graph: usize) -> u32 {
    with_context(|_| Driver::get()?.graphs.remove(graph).map(|_| ()))
}

/// Prepares a launch, for which there is nothing to do.
#[unsafe(no_mangle)]
extern "C" fn cuGraphUpload(exec: usize, stream: usize) -> u32 {
    with_context(|context| {
        stream_of(context, stream)?;
        Driver::get()?.execs.get(exec).map(|exec| debug_assert!(exec.handle != 0))
    })
}

/// An empty graph, which only `cuGraphClone` and `cuGraphInstantiate` have a use for.
#[unsafe(no_mangle)]
extern "C" fn cuGraphCreate(out: Out<usize>, flags: u32) -> u32 {
    with_context(|_| {
        if flags != 0 {
            return Err(invalid("graphs have no flags"));
        }
        out.wanted()?;
        out.set(Driver::get()?.graphs.insert(|handle| Graph::new(handle, Vec::new())).handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphClone(out: Out<usize>, graph: usize) -> u32 {
    with_context(|_| {
        let driver = Driver::get()?;
        out.wanted()?;
        let nodes = driver.graphs.get(graph)?.nodes.to_vec();
        out.set(driver.graphs.insert(|handle| Graph::new(handle, nodes)).handle)
    })
}

/// The number of nodes. Their handles are not given out: with a list to fill the call is not supported.
#[unsafe(no_mangle)]
extern "C" fn cuGraphGetNodes(graph: usize, nodes: In<u8>, count: Out<usize>) -> u32 {
    with_context(|_| {
        if !nodes.is_null() {
            let message = "nodes of captured graphs have no handles";
            return Err(crate::fault::Fault::new(crate::fault::Code::NotSupported, message));
        }
        count.set(Driver::get()?.graphs.get(graph)?.nodes.len())
    })
}
