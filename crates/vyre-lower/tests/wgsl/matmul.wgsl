// @matmul, written by vyre: one workgroup for each of the program's.
// Program 71d99feecb5942a76d876e2e7355a8c9da0517ae8114bccaf71f962a5415bc83.

@group(0) @binding(4) var<uniform> launch: array<vec4u, 3>;
@group(0) @binding(0) var<storage, read> size: array<u32>;
@group(0) @binding(1) var<storage, read> a_2: array<u32>;
@group(0) @binding(2) var<storage, read> b: array<u32>;
@group(0) @binding(3) var<storage, read_write> c: array<u32>;

fn a_2_get(w: u32) -> u32 {
  return a_2[w];
}

fn b_get(w: u32) -> u32 {
  return b[w];
}

fn c_put(w: u32, value: u32) {
  c[w] = value;
}

fn mul_wide(a: u32, b: u32) -> vec2u {
  let a0 = a & 0xffffu;
  let a1 = a >> 16u;
  let b0 = b & 0xffffu;
  let b1 = b >> 16u;
  let p01 = a0 * b1;
  let p10 = a1 * b0;
  let middle = ((a0 * b0) >> 16u) + (p01 & 0xffffu) + (p10 & 0xffffu);
  return vec2u(a * b, a1 * b1 + (p01 >> 16u) + (p10 >> 16u) + (middle >> 16u));
}

fn mul_hi_u32(a: u32, b: u32) -> u32 {
  return mul_wide(a, b).y;
}

fn a_2_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = a_2_get(i);
  }
  return result;
}

fn b_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = b_get(i);
  }
  return result;
}

fn c_store_u32(len: u32, i: u32, value: u32) {
  if (i < len) {
    c_put(i, value);
  }
}

fn soft_pack_f32(v0: u32, v1: i32, v2: u32) -> u32 {
  let v3 = 1i - v1;
  let v4 = min(max(v3, 0i), 31i);
  let v5 = bitcast<u32>(v4);
  let v6 = 1u << (v5 & 31u);
  let v7 = v6 - 1u;
  let v8 = v2 & v7;
  let v9 = v2 >> (v5 & 31u);
  let v10 = v8 != 0u;
  let v11 = select(u32(0), u32(1), v10);
  let v12 = v9 | v11;
  let v13 = v12 >> 8u;
  let v14 = v12 << 24u;
  let v15 = v13 & 1u;
  let v16 = v14 | v15;
  let v17 = v16 > 2147483648u;
  let v18 = min(max(v1, 1i), 255i);
  let v19 = v18 - 1i;
  let v20 = bitcast<u32>(v19);
  let v21 = v20 << 23u;
  let v22 = v21 + v13;
  let v23 = select(u32(0), u32(1), v17);
  let v24 = v22 + v23;
  let v25 = min(v24, 2139095040u);
  let v26 = v0 | v25;
  return v26;
}

fn soft_fma_f32(v0: u32, v1: u32, v2: u32) -> u32 {
  let v3 = v0 & 2147483647u;
  let v4 = v1 & 2147483647u;
  let v5 = v2 & 2147483647u;
  let v6 = v0 ^ v1;
  let v7 = v6 & 2147483648u;
  let v8 = v0 ^ v1;
  let v9 = v8 ^ v2;
  let v10 = v9 & 2147483648u;
  let v11 = v10 != 0u;
  let v12 = v3 >> 23u;
  let v13 = v12 != 0u;
  let v14 = select(0u, 8388608u, v13);
  let v15 = max(v12, 1u);
  let v16 = v3 & 8388607u;
  let v17 = v16 | v14;
  let v18 = bitcast<i32>(v15);
  let v19 = v18 + 8i;
  let v20 = countLeadingZeros(v17);
  let v21 = bitcast<i32>(v20);
  let v22 = v19 - v21;
  let v23 = v17 << (v20 & 31u);
  let v24 = v4 >> 23u;
  let v25 = v24 != 0u;
  let v26 = select(0u, 8388608u, v25);
  let v27 = max(v24, 1u);
  let v28 = v4 & 8388607u;
  let v29 = v28 | v26;
  let v30 = bitcast<i32>(v27);
  let v31 = v30 + 8i;
  let v32 = countLeadingZeros(v29);
  let v33 = bitcast<i32>(v32);
  let v34 = v31 - v33;
  let v35 = v29 << (v32 & 31u);
  let v36 = v5 >> 23u;
  let v37 = v36 != 0u;
  let v38 = select(0u, 8388608u, v37);
  let v39 = max(v36, 1u);
  let v40 = v5 & 8388607u;
  let v41 = v40 | v38;
  let v42 = bitcast<i32>(v39);
  let v43 = v42 + 8i;
  let v44 = countLeadingZeros(v41);
  let v45 = bitcast<i32>(v44);
  let v46 = v43 - v45;
  let v47 = v41 << (v44 & 31u);
  let v48 = mul_hi_u32(v23, v35);
  let v49 = v23 * v35;
  let v50 = v48 >> 2u;
  let v51 = v48 << 30u;
  let v52 = v49 >> 2u;
  let v53 = v51 | v52;
  let v54 = v47 >> 2u;
  let v55 = v22 + v34;
  let v56 = v55 - 126i;
  let v57 = min(v3, v4);
  let v58 = v57 == 0u;
  let v59 = select(v56, v46, v58);
  let v60 = v59 < v46;
  let v61 = max(v59, v46);
  let v62 = min(v59, v46);
  let v63 = v61 - v62;
  let v64 = select(v50, v54, v60);
  let v65 = select(v53, 0u, v60);
  let v66 = select(v54, v50, v60);
  let v67 = select(0u, v53, v60);
  let v68 = v63 >= 32i;
  let v69 = select(v66, 0u, v68);
  let v70 = select(v67, v66, v68);
  let v71 = select(0i, 32i, v68);
  let v72 = v63 - v71;
  let v73 = min(v72, 31i);
  let v74 = bitcast<u32>(v73);
  let v75 = v69 << 1u;
  let v76 = 31u - v74;
  let v77 = v75 << (v76 & 31u);
  let v78 = v69 >> (v74 & 31u);
  let v79 = 1u << (v74 & 31u);
  let v80 = v79 - 1u;
  let v81 = v70 & v80;
  let v82 = v70 >> (v74 & 31u);
  let v83 = v81 != 0u;
  let v84 = select(u32(0), u32(1), v83);
  let v85 = v82 | v84;
  let v86 = v85 | v77;
  let v87 = v65 + v86;
  let v88 = v65 - v86;
  let v89 = v64 + v78;
  let v90 = v87 < v65;
  let v91 = select(u32(0), u32(1), v90);
  let v92 = v89 + v91;
  let v93 = v64 - v78;
  let v94 = v65 < v86;
  let v95 = select(u32(0), u32(1), v94);
  let v96 = v93 - v95;
  let v97 = v96 >> 31u;
  let v98 = v97 != 0u;
  let v99 = v11 & v98;
  let v100 = select(v92, v96, v11);
  let v101 = select(v87, v88, v11);
  let v102 = ~v100;
  let v103 = v101 == 0u;
  let v104 = select(u32(0), u32(1), v103);
  let v105 = v102 + v104;
  let v106 = 0u - v101;
  let v107 = select(v100, v105, v99);
  let v108 = select(v101, v106, v99);
  let v109 = v2 & 2147483648u;
  let v110 = select(v7, v109, v60);
  let v111 = select(0u, 2147483648u, v99);
  let v112 = v110 ^ v111;
  let v113 = v107 == 0u;
  let v114 = select(v107, v108, v113);
  let v115 = select(v108, 0u, v113);
  let v116 = countLeadingZeros(v114);
  let v117 = v114 << (v116 & 31u);
  let v118 = 32u - v116;
  let v119 = v115 >> (v118 & 31u);
  let v120 = v117 | v119;
  let v121 = v115 << (v116 & 31u);
  let v122 = v121 != 0u;
  let v123 = select(u32(0), u32(1), v122);
  let v124 = v120 | v123;
  let v125 = v61 + 2i;
  let v126 = bitcast<i32>(v116);
  let v127 = v125 - v126;
  let v128 = select(0i, 32i, v113);
  let v129 = v127 - v128;
  let v130 = soft_pack_f32(v112, v129, v124);
  let v131 = v107 | v108;
  let v132 = v131 == 0u;
  let v133 = select(v7, 0u, v11);
  let v134 = select(v130, v133, v132);
  let v135 = max(v3, v4);
  let v136 = min(v3, v4);
  let v137 = v5 == 2139095040u;
  let v138 = select(v134, v2, v137);
  let v139 = v135 == 2139095040u;
  let v140 = v7 | 2139095040u;
  let v141 = select(v138, v140, v139);
  let v142 = v135 == 2139095040u;
  let v143 = v136 == 0u;
  let v144 = v5 == 2139095040u;
  let v145 = v144 & v11;
  let v146 = v143 | v145;
  let v147 = v142 & v146;
  let v148 = max(v135, v5);
  let v149 = v148 > 2139095040u;
  let v150 = v147 | v149;
  let v151 = select(v141, 2143289344u, v150);
  return v151;
}

@compute @workgroup_size(8, 8, 1)
fn main(
  @builtin(workgroup_id) launched_id: vec3u,
  @builtin(local_invocation_id) local_id: vec3u,
  @builtin(local_invocation_index) local_index: u32,
) {
  let grid = launch[0].xyz;
  let workgroup_id = launched_id + launch[1].xyz;
  let a_2_len = launch[2].y;
  let b_len = launch[2].z;
  let c_len = launch[2].w;
  let m = size[0u];
  let n = size[1u];
  let k = size[2u];
  let col = workgroup_id.x * 8u + local_id.x;
  let row = workgroup_id.y * 8u + local_id.y;
  let in_cols = col < n;
  let in_rows = row < m;
  let live = in_cols & in_rows;
  if (live) {
    var sum_2: u32 = 0u;
    let a_row = row * k;
    for (var l = 0u; l < k; l += 1u) {
      let a_at = a_row + l;
      let b_row = l * n;
      let b_at_2 = b_row + col;
      let ai = a_2_load_u32(a_2_len, a_at);
      let bi = b_load_u32(b_len, b_at_2);
      let so_far = sum_2;
      let next = soft_fma_f32(ai, bi, so_far);
      sum_2 = next;
    }
    let c_row = row * n;
    let c_at_2 = c_row + col;
    let sum = sum_2;
    let t = sum & 2147483647u;
    let t_1 = t > 2139095040u;
    let t_2 = select(sum, 2143289344u, t_1);
    c_store_u32(c_len, c_at_2, t_2);
  }
}
